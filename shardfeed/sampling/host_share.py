"""Which records of a split are a host's own: a range of record numbers, whatever the shards.

The range is of records and not of files. Dealt out by file, ten shards over eight hosts gave 80 to
217 records per host. A range gives every host the same number ±1, and a boundary inside a block
costs a host less than one block of reading. Hosts agree without communication, because everything
here follows from the manifest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardfeed.sampling.blocks import Ints


@dataclass(frozen=True)
class Runs:
    """Runs of records, as columns: number of the ``block``, records to ``skip``, to ``take``."""

    block: Ints
    skip: Ints
    take: Ints

    def __len__(self) -> int:
        return len(self.block)

    def __getitem__(self, part: slice) -> Runs:
        return Runs(self.block[part], self.skip[part], self.take[part])


def host_range(records: int, host: int, hosts: int) -> range:
    """Record numbers of host number ``host``.

    The ranges of all hosts follow each other and differ in length by at most 1.
    """
    return range(records * host // hosts, records * (host + 1) // hosts)


def runs_in(counts: Ints, mine: range) -> Runs:
    """The records ``mine`` of blocks of ``counts`` records that are read one after the other."""
    return runs_up_to(np.cumsum(counts), mine)


def runs_up_to(ends: Ints, mine: range) -> Runs:
    """``runs_in`` of blocks that have ``ends`` records up to and with each."""
    first, last = int(np.searchsorted(ends, mine.start, "right")), int(np.searchsorted(ends, mine.stop, "left"))
    block = np.arange(first, last + 1 if mine else first)
    begins = np.concatenate([[0], ends])[block]
    skip = np.maximum(mine.start - begins, 0)
    return Runs(block, skip, np.minimum(ends[block], mine.stop) - begins - skip)
