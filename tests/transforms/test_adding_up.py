"""Sums of many elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shardfeed.transforms.steps.combine import add_up


def test_some_hundred_are_added_at_a_time() -> None:
    added: list[int] = []

    def add(numbers: Iterable[int]) -> int:
        given = list(numbers)
        added.append(len(given))
        return sum(given)

    combine: Any = add_up(int, add)
    step = combine.fn
    some, more = step.create_accumulator(), step.create_accumulator()
    for number in range(1000):
        some = step.add_input(some, number)
    for number in range(10):
        more = step.add_input(more, number)

    merged = step.merge_accumulators([step.compact(some), more, step.create_accumulator()])
    assert step.extract_output(merged) == 499_545
    assert 200 < max(added) < 300
