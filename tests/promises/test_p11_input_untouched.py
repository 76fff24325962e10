"""P11: the input is never touched.

Outside of the output only temporary files are written, which are gone in the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from tests.kit import builds, disk, hooks
from tests.kit.builder import Ended
from tests.kit.images import make_photos, write


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with all that a run may see: input, home, temporary folder; later ``out``."""
    photos = make_photos(tmp_path / "photos", each=8)
    for number in range(4):
        write(photos, f"cat/broken-{number}.jpg", b"")
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


def changes(place: Path) -> Path:
    """A log of every change to the file system that a run made."""
    return place.parent / f"{place.name}-changes"


def run(
    place: Path, *flags: str, changed: tuple[Callable[[], None], ...] = (), env: dict[str, str] | None = None
) -> Ended:
    places = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp")}
    log = partial(hooks.record_changes, changes(place))
    return builds.build(place / "photos", place / "out", *flags, hooks=[log, *changed], env=places | (env or {}))


def outside(place: Path) -> dict[str, tuple[int, ...]]:
    """Everything below ``place`` but the output and the temporary folder.

    The place's own times change with its entries.
    """
    mine, seen = (f"{place}/out/", f"{place}/tmp/"), disk.snapshot(place)
    return {name: facts for name, facts in seen.items() if not (name + "/").startswith(mine) and name != f"{place}/"}


def left_in_tmp(place: Path) -> list[str]:
    """What is below the temporary folder."""
    return [str(path.relative_to(place / "tmp")) for path in (place / "tmp").rglob("*")]


_RUNS: dict[str, tuple[int, tuple[str, ...], tuple[Callable[[], None], ...]]] = {
    "a build": (0, (), ()),
    "a build by Beam": (0, builds.DIRECT, ()),
    "too many rejects": (3, ("--max_rejected", "1"), ()),
    "a build that is stopped": (4, (), (partial(hooks.signal_at_image, 5, SIGINT),)),
    "a build that is killed": (-9, (), (partial(hooks.signal_at_image, 5, SIGKILL),)),
    "a build by Beam that is killed": (-9, builds.DIRECT, (partial(hooks.signal_at_image, 5, SIGKILL),)),
    "a bug": (1, (), (partial(hooks.fail_from_image, 12),)),
    "an unknown class": (2, ("--class_list", "/dev/null"), ()),
}


@pytest.mark.parametrize("name", list(_RUNS))
def test_nothing_but_the_output_changes(name: str, place: Path) -> None:
    code, flags, changed = _RUNS[name]
    before = outside(place)
    ended = run(place, *flags, changed=changed)
    assert ended.code == code, ended.err
    assert outside(place) == before
    changed_paths = [line.split(" ", 1)[1] + "/" for line in changes(place).read_text().splitlines()]
    assert len(changed_paths) > 20 or code == 2
    assert [path for path in changed_paths if not path.startswith((f"{place}/out/", f"{place}/tmp/"))] == []
    # A killed process cannot clean up. Our temporary files have no name; Beam leaves a folder.
    beam_is_killed = code == -9 and flags == builds.DIRECT
    left = left_in_tmp(place)
    assert [name for name in left if not (beam_is_killed and re.fullmatch("beam-pipeline-temp[^/]*", name))] == []


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        pytest.param((), 0, id="the same command"),
        pytest.param(("--seed", "1", "--discard_incomplete"), 5, id="another one that discards"),
    ],
)
def test_a_rerun_of_a_finished_build_changes_nothing_at_all(flags: tuple[str, ...], code: int, place: Path) -> None:
    assert run(place).code == 0
    before = disk.snapshot(place)
    assert run(place, *flags).code == code
    assert disk.snapshot(place) == before


def test_discarding_removes_files_of_the_output_alone(place: Path) -> None:
    before = outside(place)
    assert run(place, changed=(hooks.kill_at_publishing,)).code == -9
    assert run(place, "--discard_incomplete", "--max_rejected", "1").code == 3
    assert outside(place) == before


def test_an_input_that_may_only_be_read_is_enough(place: Path) -> None:
    for path in sorted((place / "photos").rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (place / "photos").chmod(0o555)
    before = outside(place)
    ended = run(place, changed=(hooks.obey_permissions,))
    assert (ended.code, ended.err) == (0, "")
    assert outside(place) == before
