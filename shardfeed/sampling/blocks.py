"""Blocks: the pieces of shards in which readers shuffle, seek and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardfeed.format.manifest import Shard


@dataclass(frozen=True, slots=True)
class Block:
    """Records ``first`` to ``first + records - 1`` of ``shard``, in ``bytes`` from ``offset`` on."""

    shard: Shard
    first: int
    offset: int
    records: int
    bytes: int


def blocks_in(shards: Sequence[Shard]) -> list[Block]:
    """Blocks of ``shards`` in file order, as ``shardfeed.sampling.order`` numbers them."""
    out = []
    for shard in shards:
        first = offset = 0
        for records, size in shard.blocks:
            out.append(Block(shard, first, offset, records, size))
            first, offset = first + records, offset + size
    return out
