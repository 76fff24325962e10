"""Blocks: the parts of shards in which readers shuffle, seek and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardfeed.format.manifest import Shard

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """``records`` of ``shard`` from number ``first`` on, in ``bytes`` from ``offset`` on."""

    shard: Shard
    first: int
    offset: int
    records: int
    bytes: int


@dataclass(frozen=True, eq=False)
class Blocks:
    """All blocks of ``shards`` in file order, as columns; ``shard`` is an index into ``shards``.

    ``records`` belong to the split that is read, after the first ``skip`` of ``stored``: in the
    first and the last block of a part of a split, not all do.

    Indexing and iteration give single blocks. Columns take 56 bytes per block, and a split of 1 TB
    has a million blocks.
    """

    shards: Sequence[Shard]
    shard: Ints
    first: Ints
    offset: Ints
    stored: Ints
    bytes: Ints
    skip: Ints
    records: Ints

    def __len__(self) -> int:
        return len(self.shard)

    def __getitem__(self, index: int) -> Block:
        numbers = (self.first, self.offset, self.stored, self.bytes)
        return Block(self.shards[self.shard[index]], *(int(column[index]) for column in numbers))

    def __iter__(self) -> Iterator[Block]:
        return map(self.__getitem__, range(len(self)))


def blocks_in(shards: Sequence[Shard], *, skip: int = 0, take: int | None = None) -> Blocks:
    """Blocks of ``shards`` in file order: those of ``take`` records after the first ``skip``."""
    rows: list[list[int]] = []
    for index, shard in enumerate(shards):
        first = offset = 0
        for records, size in shard.blocks:
            rows.append([index, first, offset, records, size])
            first, offset = first + records, offset + size
    shard, first_record, place, stored, sizes = np.array(rows, np.int64).reshape(-1, 5).T
    ends = np.cumsum(stored)
    begins = ends - stored
    stop = skip + take if take is not None else int(stored.sum())
    held = slice(int(np.searchsorted(ends, skip, "right")), int(np.searchsorted(begins, stop, "left")))
    skipped = np.maximum(skip - begins[held], 0)
    records = np.minimum(ends[held], stop) - begins[held] - skipped
    return Blocks(shards, shard[held], first_record[held], place[held], stored[held], sizes[held], skipped, records)
