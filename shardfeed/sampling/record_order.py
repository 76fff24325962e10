"""Which records ``array_batches`` reads, in which order, as windows of pieces of blocks; numbers only, nothing is read.

The one decision: a window is shuffled by a permutation that is computed, not drawn, so a stream is entered in the middle by
leaving out what comes before. Windows and their seeds are ``load``'s (``order.host_windows``); only the permutation inside a
window differs, because TensorFlow's own shuffle makes ``load``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shardfeed.format.manifest import Shard
from shardfeed.sampling import order
from shardfeed.sampling.blocks import Block, blocks_in
from shardfeed.sampling.host_share import cut, host_range


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
        for window in order.host_windows(blocks, seed, epoch, size, mine):
            inside = int(window.take.sum())
            if inside > skip:
                permuted = order.permutation(inside, window.seed)[skip:][:left]
                rows = zip(window.block.tolist(), window.skip.tolist(), window.take.tolist(), strict=True)
                yield Window(tuple(Piece(places[block], *run) for block, *run in rows), permuted.tolist())
                left = None if left is None else left - len(permuted)
                if left == 0:
                    return
            skip = max(0, skip - inside)
        epoch += 1


def evaluation_windows(shards: Sequence[Shard], *, host: int, hosts: int) -> Iterator[Window]:
    """This host's share once, in the order of the shards, a block at a time."""
    blocks = blocks_in(shards)
    counts = np.array([block.records for block in blocks], np.int64)
    pieces = cut(counts, host_range(int(counts.sum()), host, hosts))
    for place, skip, take in zip(pieces.place.tolist(), pieces.skip.tolist(), pieces.take.tolist(), strict=True):
        yield Window((Piece(blocks[place], skip, take),), range(take))
