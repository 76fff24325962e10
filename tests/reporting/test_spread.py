"""Spreads of numbers: exact ends and means, histograms that add up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.reporting.spread import Spread

NUMBERS = st.lists(st.integers(1, 1 << 40) | st.floats(1e-3, 1e3), min_size=1, max_size=50)


def spread_of(numbers: list[float]) -> Spread:
    spread = Spread()
    spread.add(np.array(numbers, np.float64))
    return spread


@given(NUMBERS, NUMBERS)
def test_spreads_that_are_joined_are_that_of_all_numbers(some: list[float], others: list[float]) -> None:
    joined, whole = spread_of(some), spread_of([*some, *others])
    joined.join(spread_of(others))

    assert joined.bars() == whole.bars()
    assert (joined.count, joined.lowest, joined.highest) == (whole.count, whole.lowest, whole.highest)
    assert math.isclose(joined.mean, whole.mean)


@given(NUMBERS)
def test_each_number_is_in_one_of_at_most_36_bars(numbers: list[float]) -> None:
    bars = spread_of(numbers).bars()

    assert len(bars) <= 36 and [bar.low for bar in bars[1:]] == [bar.high for bar in bars[:-1]]
    near = 1 + 1e-9  # a power of two by logarithms
    assert bars[0].low <= min(numbers) * near and max(numbers) <= bars[-1].high * near
    assert sum(bar.count for bar in bars) == len(numbers)


@given(NUMBERS)
def test_the_median_is_about_right_and_the_rest_exact(numbers: list[float]) -> None:
    spread = spread_of(numbers)

    assert spread.median == pytest.approx(sorted(numbers)[(len(numbers) - 1) // 2], rel=0.011)
    assert (spread.lowest, spread.highest) == (min(numbers), max(numbers))
    assert math.isclose(spread.mean, sum(numbers) / len(numbers))


def test_zeros_have_no_place_and_nothing_has_no_bars() -> None:
    spread = spread_of([0, 0])

    assert (spread.count, spread.bars()) == (0, [])
    assert math.isnan(spread.mean) and math.isnan(spread.median)
