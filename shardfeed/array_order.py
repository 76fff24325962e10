"""Which records ``array_batches`` reads, in which order, as windows of pieces of blocks; numbers only, nothing is read.

The one decision: a window is shuffled by a permutation that is computed, not drawn, so a stream is entered in the middle by
leaving out what comes before. Blocks, windows and seeds are those of ``shardfeed.order``, and a host's share that of
``shardfeed.cut``; only the permutation inside a window differs from ``load``'s, which TensorFlow makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed import order
from shardfeed.array_blocks import Block, blocks_in
from shardfeed.cut import cut, host_range
from shardfeed.manifest import Shard


@dataclass(frozen=True, slots=True)
class Piece:
    """``records`` of a block, the first ``skip`` left out."""

    block: Block
    skip: int
    records: int


@dataclass(frozen=True, slots=True)
class Window:
    """Pieces that are in memory together, and the numbers of their records in the order in which they are used."""

    pieces: tuple[Piece, ...]
    order: Sequence[int]


def training_windows(
    shards: Sequence[Shard], *, seed: int, window_bytes: int, host: int, hosts: int, start: int, count: int | None
) -> Iterator[Window]:
    """This host's stream from its record number ``start`` on: ``count`` records, or without end."""
    blocks, places = order.blocks_of(shards), blocks_in(shards)
    size = order.window_blocks(blocks, window_bytes)
    mine = host_range(int(blocks.records.sum()), host, hosts)
    epoch, skip = divmod(start, len(mine))
    left = count
    while True:
        at = 0  # records of this pass in windows before this one
        for number, window in enumerate(order.windows(blocks, seed, epoch, size)):
            pieces = _cut([places[block] for block in window.tolist()], mine, at)
            at += int(blocks.records[window].sum())
            inside = sum(piece.records for piece in pieces)
            if inside > skip:
                permuted = order.permutation(inside, order.window_seed(seed, epoch, number))[skip:][:left]
                yield Window(pieces, permuted.tolist())
                left = None if left is None else left - len(permuted)
                if left == 0:
                    return
            skip = max(0, skip - inside)
        epoch += 1


def evaluation_windows(shards: Sequence[Shard], *, host: int, hosts: int) -> Iterator[Window]:
    """This host's share once, in the order of the shards, a block at a time."""
    mine = host_range(sum(shard.records for shard in shards), host, hosts)
    for piece in _cut(blocks_in(shards), mine, 0):
        yield Window((piece,), range(piece.records))


def _cut(blocks: Sequence[Block], mine: range, at: int) -> tuple[Piece, ...]:
    """What is ``mine`` of ``blocks``, whose first record is number ``at`` of the pass."""
    counts = np.array([block.records for block in blocks], np.int64)
    found = cut(counts, range(max(0, mine.start - at), max(0, mine.stop - at)))
    rows = zip(found.place.tolist(), found.skip.tolist(), found.take.tolist(), strict=True)
    return tuple(Piece(blocks[place], skip, take) for place, skip, take in rows)
