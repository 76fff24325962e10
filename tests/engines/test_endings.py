"""A build on an engine that the launcher starts ends with the same message as one in process."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.pipeline import already_built, run_build
from tests.kit import builds
from tests.kit.builder import Ended
from tests.kit.hooks import put


@pytest.fixture
def engine(prism_program: Path) -> tuple[str, ...]:
    """Flags of an engine that is a child of the launcher, with a worker that is a thread of it."""
    return ("--runner", "PrismRunner", "--prism_location", str(prism_program))


def overlook_the_dataset() -> None:
    """The launcher looks before another build has published; the graph finds its dataset."""
    looks = iter([lambda *_, **__: None])
    put(run_build, "find_existing", lambda *a, **kw: next(looks, already_built.find_existing)(*a, **kw))


def said(ended: Ended, out: Path) -> tuple[int, str]:
    return ended.code, ended.err.replace(str(out), "OUT")


def test_too_many_rejects_and_then_a_build_with_other_options_in_that_output(
    engine: tuple[str, ...], photos: Path, tmp_path: Path
) -> None:
    outs = {tmp_path / "plain": (), tmp_path / "there": engine}
    for flags, code, lines in ((("--max_rejected", "0"), 3, 3), (("--image_size", "8"), 5, 1)):
        plain, there = [said(builds.build(photos, out, *flags, *where), out) for out, where in outs.items()]
        assert there == plain
        assert (plain[0], len(plain[1].splitlines())) == (code, lines)


def test_a_build_that_another_one_overtook(engine: tuple[str, ...], photos: Path, tmp_path: Path) -> None:
    builds.built(photos, tmp_path / "out")
    again = builds.build(photos, tmp_path / "out", *engine, hooks=[overlook_the_dataset])
    assert (again.code, again.err) == (0, "")
