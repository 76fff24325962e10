"""Outcomes survive the graph: the first failure of a run is written under its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.errors import ConflictError, TooManyRejectsError, UsageError
from shardfeed.transforms.run.outcome import AlreadyBuiltError, read_outcome, reported
from shardfeed.transforms.run.state import Outcome, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run("run-1", str(tmp_path / "out"))


def test_a_failure_of_ours_is_written_and_raised(run: Run) -> None:
    with pytest.raises(TooManyRejectsError, match="too many"), reported(run, ["rejects-1", "rejects-2"]):
        raise TooManyRejectsError("too many\nö")

    assert read_outcome(run) == Outcome(3, "too many\nö", ("rejects-1", "rejects-2"))
    assert run.outcome == read_outcome(run)


def test_the_first_failure_of_a_run_is_the_one_reported_and_no_other_runs(run: Run) -> None:
    for error in (UsageError("first"), ConflictError("second")):
        with pytest.raises(type(error)), reported(run):
            raise error

    assert read_outcome(run) == run.outcome == Outcome(2, "first")
    assert read_outcome(Run("run-2", run.output)) is None


def test_nothing_is_left_in_an_output_that_another_run_has_published_and_swept(run: Run) -> None:
    with pytest.raises(AlreadyBuiltError), reported(run):
        raise AlreadyBuiltError("built meanwhile")

    assert not Path(run.output).exists()
    assert run.outcome == Outcome(0, "built meanwhile")


def test_a_bug_passes_as_it_is_and_nothing_is_written_unless_something_fails(run: Run) -> None:
    with pytest.raises(ZeroDivisionError), reported(run):
        1 / 0  # noqa: B018
    with reported(run):
        pass

    assert (read_outcome(run), run.outcome) == (None, None)
    assert not Path(run.output).exists()


def test_an_output_that_cannot_be_written_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    run = Run("r", str(tmp_path / "file"))

    with pytest.raises(ConflictError, match="the real one"), reported(run):
        raise ConflictError("the real one")
    assert run.outcome == Outcome(5, "the real one")
