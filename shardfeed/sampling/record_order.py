"""Which records ``array_batches`` reads, in which order. Only numbers are computed.

A window is shuffled by a permutation that is computed, not drawn, so a stream can be entered in
the middle by leaving out what comes before. The windows and their seeds are those of ``load``
(``order.host_windows``). Only the permutation inside a window differs, because ``load`` uses
TensorFlow's own shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardfeed.format.manifest import Shard
from shardfeed.sampling import order
from shardfeed.sampling.blocks import Block, Blocks, blocks_in
from shardfeed.sampling.host_share import Runs, host_range, runs_in


class Run(NamedTuple):
    """``take`` records of ``block``, after its first ``skip``."""

    block: Block
    skip: int
    take: int


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """Runs that are in memory together, and the order in which their records are used."""

    runs: tuple[Run, ...]
    order: Sequence[int]


def training_windows(
    shards: Sequence[Shard], *, seed: int, window_bytes: int, host: int, hosts: int, start: int, count: int | None
) -> Iterator[ReadWindow]:
    """This host's stream from its record number ``start`` on: ``count`` records, or without end."""
    blocks = blocks_in(shards)
    size = order.window_blocks(blocks, window_bytes)
    mine = host_range(int(blocks.records.sum()), host, hosts)
    epoch, skip = divmod(start, len(mine))
    left = count
    while True:
        for window in order.host_windows(blocks, seed, epoch, size, mine):
            inside = int(window.runs.take.sum())
            if inside > skip:
                permuted = order.permutation(inside, window.seed)[skip:][:left]
                yield ReadWindow(tuple(_each(blocks, window.runs)), permuted.tolist())
                left = None if left is None else left - len(permuted)
                if left == 0:
                    return
            skip = max(0, skip - inside)
        epoch += 1


def evaluation_windows(shards: Sequence[Shard], *, host: int, hosts: int, start: int = 0) -> Iterator[ReadWindow]:
    """This host's share once, in the order of the shards, one block per window.

    ``start``: records of the share that are left out.
    """
    blocks = blocks_in(shards)
    mine = host_range(int(blocks.records.sum()), host, hosts)[start:]
    for run in _each(blocks, runs_in(blocks.records, mine)):
        yield ReadWindow((run,), range(run.take))


def _each(blocks: Blocks, runs: Runs) -> Iterator[Run]:
    for block, skip, take in zip(runs.block.tolist(), runs.skip.tolist(), runs.take.tolist(), strict=True):
        yield Run(blocks[block], skip, take)
