"""What a run counts for its progress line and summary, and how it travels with a step."""

from __future__ import annotations

import pickle
import subprocess
import sys

from shardfeed.transforms.elements import PartResult
from shardfeed.transforms.run.state import Run


def result(part: int, records: int) -> PartResult:
    """A part of so many records and one reject."""
    return PartResult(
        split="train", part=part, bytes=10 * records, records=records, crc32c=1, key_sum=2, rejected={"EMPTY": 1}, fixes={},
        class_counts={"cat": records}, stats=None,
    )  # fmt: skip


def test_a_part_that_comes_again_counts_once_and_as_made() -> None:
    run = Run("run", "/out")
    run.add(result(0, 5), 2)
    run.add(result(0, 5), 5)  # the bundle is repeated and finds what it made
    run.add(result(1, 3), 3)
    assert (run.done, run.kept, run.rejected, run.out_bytes) == (10, 5, 2, 80)


def test_copies_of_a_run_are_the_run_itself_and_no_other_run() -> None:
    one, two = Run("one", "/out"), Run("two", "/out")
    assert pickle.loads(pickle.dumps(one)) is one
    one.stop.set()
    assert not pickle.loads(pickle.dumps(two)).stop.is_set()
    Run("three", "/out")  # begins while the threads of the first still end
    assert one.stop.is_set()


def test_in_another_process_all_copies_of_a_run_are_one() -> None:
    code = (
        "import pickle, sys; data = sys.stdin.buffer.read(); one, two = pickle.loads(data), pickle.loads(data);"
        "print(one is two, one.run_id, one.output, one.stop.is_set())"
    )
    run = Run("one", "/out")
    run.stop.set()
    ran = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(run), capture_output=True, check=True)
    assert ran.stdout.decode().split() == ["True", "one", "/out", "False"]
