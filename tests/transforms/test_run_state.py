"""What a run in this process counts for its progress line and summary."""

from __future__ import annotations

from transforms.elements import PartResult
from transforms.run_state import RunState


def result(part: int, records: int) -> PartResult:
    """A part of so many records and one reject."""
    return PartResult(
        split="train", part=part, bytes=10 * records, records=records, crc32c=1, key_sum=2, rejected={"EMPTY": 1}, fixes={},
        class_counts={"cat": records}, stats=None,
    )  # fmt: skip


def test_a_part_that_comes_again_counts_once_and_as_made() -> None:
    run = RunState()
    run.add(result(0, 5), kept=False)
    run.add(result(0, 5), kept=True)  # the bundle is repeated and finds what it made
    run.add(result(1, 3), kept=True)
    assert (run.done, run.kept, run.rejected, run.out_bytes) == (10, 4, 2, 80)


def test_after_a_restart_all_parts_count_again() -> None:
    run = RunState()
    run.add(result(0, 5), kept=False)
    run.restart()
    run.add(result(0, 5), kept=True)
    assert (run.done, run.kept) == (6, 6)
