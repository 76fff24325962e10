"""P10: a dataset of an unknown version is refused, never half read and never written to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shardfeed
from shardfeed.errors import DatasetError
from tests.kit import builds, disk
from tests.kit.images import make_photos


@pytest.fixture
def future(tmp_path: Path) -> Path:
    """A dataset whose manifest says that a later shardfeed wrote it."""
    out = tmp_path / "out"
    builds.built(make_photos(tmp_path / "photos"), out)
    raw = disk.manifest(out)
    (out / "manifest.json").write_text(json.dumps({**raw, "schema_version": raw["schema_version"] + 1}))
    return out


_SAID = (
    "has schema_version 3; this shardfeed reads versions 1 and 2. Install the shardfeed that wrote it, or build the dataset "
    "again."
)


@pytest.mark.parametrize("open_it", [shardfeed.info, shardfeed.verify], ids=["info", "verify"])
def test_the_reader_refuses_it(open_it, future: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DatasetError) as refusal:
        open_it(future)
    assert str(refusal.value) == f"{future}/manifest.json {_SAID}"


@pytest.mark.parametrize("command", ["build", "rerun with --trust_manifest", "verify", "verify --deep", "inspect"])
def test_the_command_line_refuses_it_and_changes_nothing(command: str, future: Path) -> None:
    photos, before = future.parent / "photos", disk.snapshot(future)
    ended = {
        "build": lambda: builds.build(photos, future),
        "rerun with --trust_manifest": lambda: builds.build(photos, future, "--trust_manifest"),
        "verify": lambda: builds.run("verify", str(future)),
        "verify --deep": lambda: builds.run("verify", str(future), "--deep"),
        "inspect": lambda: builds.run("inspect", str(future)),
    }[command]()
    said = f"{future}/manifest.json {_SAID}"
    if "build" in command or "rerun" in command:  # a build is in conflict with it, whoever reads it cannot use it
        said = (
            f"--output {future} holds a dataset already, which is never overwritten: {said} Or give another --output."
        )
    assert (ended.code, ended.out, ended.err) == (5 if said.startswith("--") else 4, "", f"shardfeed: {said}\n")
    assert disk.snapshot(future) == before


def test_discard_incomplete_does_not_remove_it(future: Path) -> None:
    before = disk.snapshot(future)
    ended = builds.build(future.parent / "photos", future, "--discard_incomplete")
    assert ended.code == 5
    assert disk.snapshot(future) == before


@pytest.mark.parametrize("version", [0, 3, -1, "1", 1.0, None, True, [1]], ids=repr)
def test_only_the_known_number_is_a_known_version(version: object, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"schema_version": version}))
    with pytest.raises(DatasetError, match="has schema_version"):
        shardfeed.info(tmp_path)
