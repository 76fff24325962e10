"""The process that runs builds for tests: one that hangs is never taken for one that was killed."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from tests.kit import builds, hooks
from tests.kit.builder import Request, ask
from tests.kit.images import make_photos


def hang() -> None:
    threading.Event().wait()


def test_a_command_that_hangs_fails_its_test_and_says_where(tmp_path: Path) -> None:
    builds.start_builder()
    where = rf"status.* did not end within 0\.5 s:\n(.*\n)* .*{Path(__file__).name}.* in hang\n"
    with pytest.raises(AssertionError, match=where):
        ask(Request(("status", str(tmp_path)), (hang,), patience=0.5))


@pytest.mark.parametrize("driver", builds.DRIVERS)
def test_a_build_finds_all_that_it_loads_of_ours_loaded(driver: str, tmp_path: Path) -> None:
    """Otherwise each build of each test loads it again, which doubles the time of a small one."""
    log = tmp_path / "imports"
    photos = make_photos(tmp_path / "photos", each=2)
    builds.built(photos, tmp_path / "out", *builds.DRIVERS[driver], hooks=[partial(hooks.record_imports, log)])
    assert [
        name for name in log.read_text().split() if name.partition(".")[0] in ("shardfeed", "pi_heif", "pylibjxl")
    ] == []
