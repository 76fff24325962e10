"""How positive numbers are spread: exact ends and mean, and counts on a logarithmic axis.

Sizes and bytes span orders of magnitude, and a logarithmic axis shows all of them. Its cells are
1/64 of an octave (1.1 %) wide whatever the numbers are, so spreads of many tables add up without a
second pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CELLS = 64  # per octave
_LEAST = -16  # octaves; a ratio of sides is at least 2**-16
_OCTAVES = 80
_BARS = 36  # at most, of a histogram: on a telephone a bar is still 8 pixels wide


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram: the numbers from ``low`` to ``high``."""

    low: float
    high: float
    count: int


class Spread:
    """The spread of the numbers that were added.

    Attributes:
        count: Number of them.
        lowest: The smallest; NaN if there is none.
        highest: The largest; NaN if there is none.
    """

    def __init__(self) -> None:
        self.count, self.lowest, self.highest, self._sum = 0, math.nan, math.nan, 0.0
        self._cells = np.zeros(_OCTAVES * _CELLS, np.int64)

    def add(self, values: NDArray[Any]) -> None:
        """Adds numbers; those of 0 and below have no place on a logarithmic axis."""
        values = values[values > 0]
        if not len(values):
            return
        places = np.floor((np.log2(values) - _LEAST) * _CELLS).astype(np.int64)
        self._cells += np.bincount(np.clip(places, 0, len(self._cells) - 1), minlength=len(self._cells))
        self.count += len(values)
        self._sum += float(values.sum(dtype=np.float64))
        self.lowest = float(np.fmin(self.lowest, float(values.min())))
        self.highest = float(np.fmax(self.highest, float(values.max())))

    def join(self, other: Spread) -> None:
        """Adds the numbers of another spread."""
        self._cells += other._cells
        self.count, self._sum = self.count + other.count, self._sum + other._sum
        self.lowest = float(np.fmin(self.lowest, other.lowest))
        self.highest = float(np.fmax(self.highest, other.highest))

    @property
    def mean(self) -> float:
        """Their mean; NaN if there is none."""
        return self._sum / self.count if self.count else math.nan

    @property
    def median(self) -> float:
        """Their median, at most 1.1 % off; NaN if there is none."""
        if not self.count:
            return math.nan
        cell = int(np.searchsorted(np.cumsum(self._cells), (self.count + 1) // 2))
        return min(max(_value(cell + 0.5), self.lowest), self.highest)

    def bars(self) -> list[Bar]:
        """A histogram of at most 36 bars from the smallest to the largest number."""
        if not self.count:
            return []
        used = np.flatnonzero(self._cells)
        first, cells = int(used[0]), int(used[-1] - used[0]) + 1
        width = math.ceil(cells / _BARS)
        counts = np.add.reduceat(self._cells[first : first + cells], range(0, cells, width))
        starts = [first + width * number for number in range(len(counts) + 1)]
        return [
            Bar(_value(low), _value(high), int(count))
            for low, high, count in zip(starts, starts[1:], counts, strict=False)
        ]


def _value(cell: float) -> float:
    """The number at which a cell begins."""
    return float(2.0 ** (cell / _CELLS + _LEAST))
