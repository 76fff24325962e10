"""Streams: a pass over a split in parts of equal length, so that the number of hosts may change.

Record number p of a training, counted over all hosts and passes, has a fixed place:

    pass e, q = divmod(p, N)    stream s, index i = q mod C, q div C    host p mod H

If H divides C, all rows of a host in one pass lie in the streams s ≡ (h - e * N) mod H. So the
hosts of any such H read the same global batches, each its own streams, and none of them reads for
another. Streams begin anew in each pass. Endless streams of unequal length would drift apart and
double some records.

A stream is a run of a pass's permuted blocks, cut at a record. There are C - 1 cuts, and a cut
block is read by two streams. Two rules keep that cheap:

- Streams lie in the order of their reversed bits. So the streams of a host are neighbours for
  every H, and a cut block concerns two hosts at H - 1 places only.
- Every second stream is read backwards, block by block. So neighbours are at their common block at
  the same time, both at the beginning of the pass or both at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shardfeed.sampling.blocks import Ints
from shardfeed.sampling.host_share import host_range
from shardfeed.warning import warn
from shardfeed.words import plural

_MOST_STREAMS = 64
_BLOCKS_PER_STREAM = 8  # at least: each cut is in another block


def stream_count(blocks: int) -> int:
    """C: the largest power of two that is at most 64 and at most ``blocks`` / 8; at least 1."""
    return 1 << (max(1, min(_MOST_STREAMS, blocks // _BLOCKS_PER_STREAM)).bit_length() - 1)


@dataclass(frozen=True)
class Streams:
    """The streams that host number ``host`` of ``hosts`` reads; see ``host_streams``.

    ``count`` streams hold the ``records`` of a pass from its record ``first`` on. A row is a
    record's number in the host's own stream. Slot k of the host has the rows k, k + slots, … .
    ``epoch`` and ``slot`` are ints or int64 tensors.
    """

    first: int
    records: int
    count: int
    host: int
    hosts: int

    @property
    def slots(self) -> int:
        """Streams of this host at a time."""
        return self.count // self.hosts

    def stream(self, slot: Any, epoch: Any) -> tuple[Any, Any]:
        """The stream that ``slot`` reads in pass ``epoch``, and the row of its first record."""
        before = epoch * self.records - self.host
        row = -(-before // self.hosts)  # the host's first in this pass
        turn = (slot - row) % self.slots
        return -before % self.hosts + turn * self.hosts, row + turn

    def place(self, row: int) -> tuple[int, int]:
        """Pass of a ``row``, and its index in the stream of that pass."""
        epoch, inside = divmod(self.host + row * self.hosts, self.records)
        return epoch, inside // self.count

    @cached_property
    def starts(self) -> Ints:
        """By stream: the number of its first record in the permuted pass."""
        lengths = self.lengths[_bit_reversed(self.count)]
        return self.first + (np.cumsum(lengths) - lengths)[_bit_reversed(self.count)]

    @cached_property
    def lengths(self) -> Ints:
        """By stream: its records per pass."""
        numbers = np.arange(self.count)
        return (self.records - numbers + self.count - 1) // self.count

    @cached_property
    def backwards(self) -> Ints:
        """By stream: 1 if its blocks are read from the last to the first."""
        return 1 - _bit_reversed(self.count) % 2 if self.count > 1 else np.zeros(1, np.int64)

    def phases(self, size: int) -> Ints:
        """By stream: blocks by which its first window is shorter than ``size``.

        So the windows of a host do not all end at the same time.
        """
        return size * np.arange(self.count) // self.count


def host_streams(records: int, blocks: int, host: int, hosts: int) -> Streams:
    """The streams of a host in a split.

    If ``hosts`` does not divide the split's streams, the host has one of its own: a contiguous
    share of each permuted pass.
    """
    if is_elastic(blocks, hosts):
        return Streams(0, records, stream_count(blocks), host, hosts)
    mine = host_range(records, host, hosts)
    return Streams(mine.start, len(mine), 1, 0, 1)


def is_elastic(blocks: int, hosts: int) -> bool:
    """Whether ``hosts`` read the order of one host, and may be another number later."""
    return stream_count(blocks) % hosts == 0


def warn_if_not_elastic(split: str, blocks: int, hosts: int) -> None:
    """Warns that a training on ``hosts`` cannot go on with another number of them."""
    if is_elastic(blocks, hosts):
        return
    count = stream_count(blocks)
    allowed = ", ".join(str(1 << power) for power in range(count.bit_length()))
    warn(
        f"{split} on {hosts} hosts is not elastic: start_step holds for {hosts} hosts only, because its "
        f"{plural(blocks, 'block')} make {plural(count, 'stream')}. Numbers of hosts that share one order: {allowed}."
    )


def _bit_reversed(count: int) -> Ints:
    """0 … count - 1, a power of two, each with its bits in the reversed order; its own inverse."""
    numbers = np.zeros(1, np.int64)
    while len(numbers) < count:
        numbers = np.concatenate([numbers * 2, numbers * 2 + 1])
    return numbers
