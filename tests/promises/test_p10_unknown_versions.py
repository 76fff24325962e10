"""P10: a dataset of an unknown version is refused, never half read and never written to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shardfeed
from shardfeed.errors import DatasetError
from tests.kit import builds, disk
from tests.kit.images import make_photos


@pytest.fixture(scope="module")
def future(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose manifest says that a later shardfeed wrote it."""
    folder = tmp_path_factory.mktemp("p10")
    out = folder / "out"
    builds.built(make_photos(folder / "photos"), out)
    raw = disk.manifest(out)
    (out / "manifest.json").write_text(json.dumps({**raw, "schema_version": raw["schema_version"] + 1}))
    return out


_SAID = (
    "has schema_version 3; this shardfeed reads versions 1 and 2. Install the shardfeed that wrote it, or build the dataset "
    "again."
)


def test_the_reader_refuses_it(future: Path) -> None:
    with pytest.raises(DatasetError) as refusal:
        shardfeed.info(future)
    assert str(refusal.value) == f"{future}/manifest.json {_SAID}"


@pytest.mark.parametrize(
    ("command", "flags"),
    [("build", ()), ("build", ("--trust_manifest",)), ("verify", ()), ("inspect", ())],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_the_command_line_refuses_it_and_changes_nothing(command: str, flags: tuple[str, ...], future: Path) -> None:
    before, code, said = disk.snapshot(future), 4, f"{future}/manifest.json {_SAID}"
    if command == "build":  # it is in conflict with the dataset; whoever reads it cannot use it
        ended, code = builds.build(future.parent / "photos", future, *flags), 5
        said = (
            f"--output {future} holds a dataset already, which is never overwritten: {said} Or give another --output."
        )
    else:
        ended = builds.run(command, str(future), *flags)
    assert (ended.code, ended.out, ended.err) == (code, "", f"shardfeed: {said}\n")
    assert disk.snapshot(future) == before


def test_discard_incomplete_does_not_remove_it(future: Path) -> None:
    before = disk.snapshot(future)
    ended = builds.build(future.parent / "photos", future, "--discard_incomplete")
    assert (ended.code, disk.snapshot(future)) == (5, before)
