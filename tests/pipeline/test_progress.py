"""The progress line: its text, and what it writes to a terminal and to anything else."""

from __future__ import annotations

import io
import threading

import pytest

from shardfeed.pipeline.report import progress
from shardfeed.pipeline.report.progress import progress_line, progress_text
from shardfeed.transforms.run.state import Run
from shardfeed.words import duration, human_bytes


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("listing", 0, 0, 0, 0, 0.0), "listing …"),
        (("encoding", 0, 12_000, 0, 0, 0.0), "encoding 0 of 12,000 images (0 %), 0 B"),
        (
            ("encoding", 3_000, 12_000, 0, 61_500_000, 600.0),
            "encoding 3,000 of 12,000 images (25 %), 600 img/s, 15 s left, 61.5 MB",
        ),
        (
            ("encoding", 11_999, 12_000, 1_234, 999, 0.6),
            "encoding 11,999 of 12,000 images (99 %), 1 img/s, 2 s left, 999 B, 1,234 rejected",
        ),
        (("publishing", 12_000, 12_000, 0, 10**9, 600.0), "publishing 12,000 of 12,000 images (100 %), 1.0 GB"),
    ],
    ids=["before the listing is whole", "first", "midway", "nearly", "publishing"],
)
def test_the_line_says_how_far_and_how_long(arguments: tuple[str, int, int, int, int, float], text: str) -> None:
    assert progress_text(*arguments) == text


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (human_bytes(0), "0 B"),
        (human_bytes(999), "999 B"),
        (human_bytes(1_000), "1.0 kB"),
        (human_bytes(12_345_678), "12.3 MB"),
        (human_bytes(999_949), "999.9 kB"),
        (human_bytes(5 * 10**12), "5.0 TB"),
        (duration(0.4), "0 s"),
        (duration(59.4), "59 s"),
        (duration(59.6), "1 min 0 s"),
        (duration(200), "3 min 20 s"),
        (duration(3_599), "59 min 59 s"),
        (duration(3_600), "1 h 0 min"),
        (duration(7_530), "2 h 5 min"),
    ],
)
def test_bytes_have_decimal_units_and_durations_are_for_people(told: str, text: str) -> None:
    assert told == text


class _Stream(io.StringIO):
    """A log or a terminal that tells when something was written."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._is_terminal = terminal
        self.written = threading.Semaphore(0)

    def isatty(self) -> bool:
        return self._is_terminal

    def flush(self) -> None:
        self.written.release()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(progress, "_TERMINAL_SECONDS", 0.001)
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.001)
    run = Run("run", "/out")
    run.step, run.total, run.done = "encoding", 10, 5
    return run


def test_a_log_gets_plain_lines(run: Run) -> None:
    stream = _Stream(terminal=False)
    with progress_line(stream, run):
        for _ in range(2):
            assert stream.written.acquire(timeout=30)

    lines = stream.getvalue().splitlines(keepends=True)
    assert lines[0] == "encoding 5 of 10 images (50 %), 0 B\n"
    assert {line[-1] for line in lines} == {"\n"}
    assert "".join(lines).replace("\n", "").isprintable()


def test_a_terminal_gets_one_line_that_is_rewritten_and_removed_at_the_end(run: Run) -> None:
    stream = _Stream(terminal=True)
    with progress_line(stream, run):
        for _ in range(2):
            assert stream.written.acquire(timeout=30)

    text = stream.getvalue()
    assert "\n" not in text
    assert text.startswith("\r\x1b[Kencoding 5 of 10 images (50 %), 0 B\r\x1b[Kencoding")
    assert text.endswith("\r\x1b[K")


def test_no_stream_gets_nothing(run: Run) -> None:
    before = set(threading.enumerate())
    with progress_line(None, run):
        assert set(threading.enumerate()) <= before


def test_a_log_that_is_closed_before_the_first_line_is_left_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOG_SECONDS", 3600)
    stream = _Stream(terminal=False)
    with progress_line(stream, run):
        pass
    assert stream.getvalue() == ""
