"""A build on an engine that the launcher starts ends with the same message as one in process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.pipeline import already_built, run_build
from tests.kit import builds
from tests.kit.builder import Ended
from tests.kit.commands import environment
from tests.kit.hooks import put

THREADS = ("--runner", "DirectRunner", "--direct_num_workers", "2", "--direct_running_mode", "multi_threading")


@pytest.fixture(params=["Prism", "threads"])
def engine(request: pytest.FixtureRequest, prism_program: Path) -> tuple[str, ...]:
    """Flags of an engine that is part of the launcher, or its child."""
    if request.param == "Prism":
        return ("--runner", "PrismRunner", "--prism_location", str(prism_program))
    return THREADS


def overlook_the_dataset() -> None:
    """The launcher looks before another build has published; the graph finds its dataset."""
    looks = iter([lambda *_, **__: None])
    put(run_build, "find_existing", lambda *a, **kw: next(looks, already_built.find_existing)(*a, **kw))


def said(ended: Ended, out: Path) -> tuple[int, str]:
    return ended.code, ended.err.replace(str(out), "OUT")


def test_too_many_rejects(engine: tuple[str, ...], photos: Path, tmp_path: Path) -> None:
    plain = builds.build(photos, tmp_path / "plain", "--max_rejected", "0")
    there = builds.build(photos, tmp_path / "there", "--max_rejected", "0", *engine)
    assert plain.code == 3 and len(plain.err.splitlines()) == 3
    assert said(there, tmp_path / "there") == said(plain, tmp_path / "plain")


def test_parts_of_another_build_in_the_output(engine: tuple[str, ...], photos: Path, tmp_path: Path) -> None:
    builds.build(photos, tmp_path / "out", "--max_rejected", "0")
    plain = builds.build(photos, tmp_path / "out", "--image_size", "8")
    there = builds.build(photos, tmp_path / "out", "--image_size", "8", *engine)
    assert (plain.code, there.code, there.err) == (5, 5, plain.err)


def test_a_build_that_another_one_overtook(engine: tuple[str, ...], photos: Path, tmp_path: Path) -> None:
    builds.built(photos, tmp_path / "out")
    again = builds.build(photos, tmp_path / "out", *engine, hooks=[overlook_the_dataset])
    assert (again.code, again.err) == (0, "")


# ``shardfeed``, which says so where Beam waits at the end for an engine that it has asked to stop.
TELLING_SLEEP = """
import sys, types
from apache_beam.utils import subprocess_server
from shardfeed import __main__
subprocess_server.time = types.SimpleNamespace(sleep=lambda seconds: print("Beam waits", file=sys.stderr))
sys.exit(__main__.main())
"""


def test_nothing_is_waited_for_after_success(prism_program: Path, photos: Path, tmp_path: Path) -> None:
    args = builds.build_args(
        photos, tmp_path / "out", "--runner", "PrismRunner", "--prism_location", str(prism_program)
    )
    program = [sys.executable, "-c", TELLING_SLEEP, *args]
    ended = subprocess.run(program, capture_output=True, text=True, env=environment(), check=False)
    assert ended.returncode == 0
    assert "Beam waits" not in ended.stderr  # a slow machine also shows a line of progress there
    assert ended.stdout.startswith("Built: ")
