"""Outcomes survive the graph: the first failure of a run is written under its name, and only that is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfeed.errors import ConflictError, TooManyRejectsError, UsageError
from transforms.outcome import Outcome, Output, read_outcome, reported
from transforms.run_state import RUN


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    RUN.error = None
    yield Output(str(tmp_path / "out"), "run-1")
    RUN.error = None


def test_a_failure_of_ours_is_written_and_raised(output: Output) -> None:
    with pytest.raises(TooManyRejectsError, match="too many"), reported(output, ["rejects-1", "rejects-2"]):
        raise TooManyRejectsError("too many\nö")

    assert read_outcome(output) == Outcome(3, "too many\nö", ("rejects-1", "rejects-2"))
    assert isinstance(RUN.error, TooManyRejectsError)


def test_the_first_failure_of_a_run_is_the_one_reported(output: Output) -> None:
    for error in (UsageError("first"), ConflictError("second")):
        with pytest.raises(type(error)), reported(output):
            raise error

    assert read_outcome(output) == Outcome(2, "first")
    assert str(RUN.error) == "first"


def test_another_runs_outcome_is_not_ours(output: Output) -> None:
    with pytest.raises(UsageError), reported(output):
        raise UsageError("theirs")

    assert read_outcome(Output(output.url, "run-2")) is None


def test_a_bug_passes_as_it_is(output: Output) -> None:
    with pytest.raises(ZeroDivisionError), reported(output):
        1 / 0  # noqa: B018

    assert read_outcome(output) is None
    assert RUN.error is None


def test_nothing_is_written_when_nothing_fails(output: Output) -> None:
    with reported(output):
        pass

    assert read_outcome(output) is None
    assert not Path(output.url).exists()


def test_an_output_that_cannot_be_written_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    RUN.error = None

    with pytest.raises(ConflictError, match="the real one"), reported(Output(str(tmp_path / "file"), "r")):
        raise ConflictError("the real one")
    assert str(RUN.error) == "the real one"
    RUN.error = None
