"""``cache="decoded"``: images in memory from the moment when they have been decoded for the first
time.

A window whose images are all here is not read again. ``load`` decodes the whole split before its
first batch; here the first pass fills the memory while it trains. The order is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardfeed.arrays.any_record import RecordForm
from shardfeed.arrays.decoder import Columns, Examples
from shardfeed.decoding import Pixels
from shardfeed.format.manifest import Shard
from shardfeed.sampling.blocks import Ints
from shardfeed.sampling.record_order import ReadWindow


class DecodedImages:
    """Images of the records of ``shards`` by their numbers, and their other columns.

    Safe to share between threads.
    """

    def __init__(self, shards: Sequence[Shard], form: RecordForm) -> None:
        records = [shard.records for shard in shards]
        starts = np.cumsum(records) - records
        self._starts = {shard.file: int(start) for shard, start in zip(shards, starts, strict=True)}
        count = sum(records)
        self._images: list[Pixels | None] = [None] * count
        self._there = np.zeros(count, np.bool_)
        self._columns: Columns = form.empty(count, keyed=True)

    def has(self, window: ReadWindow) -> bool:
        """Whether all images of ``window`` are here."""
        return bool(self._there[self._numbers(window)].all())

    def examples(self, window: ReadWindow) -> Examples:
        """A window that ``has`` found."""
        numbers = self._numbers(window)
        images = [self._images[number] for number in numbers.tolist()]
        return Examples(images, {name: values[numbers] for name, values in self._columns.items()}, [], numbers)

    def noted(self, window: ReadWindow, read: Examples) -> Examples:
        """``read`` with the numbers of its records, and their columns kept."""
        numbers = self._numbers(window)
        for name, values in read.columns.items():
            self._columns[name][numbers] = values
        return read._replace(numbers=numbers)

    def keep(self, number: int, image: Pixels) -> None:
        """Keep an image, which nobody changes from now on."""
        self._images[number] = image
        self._there[number] = True

    def _numbers(self, window: ReadWindow) -> Ints:
        """Numbers of a window's records in the split, in the order of its runs."""
        first = [self._starts[run.block.shard.file] + run.block.first + run.skip for run in window.runs]
        return np.concatenate([np.arange(at, at + run.take) for at, run in zip(first, window.runs, strict=True)])
