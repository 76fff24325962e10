"""Which records ``array_batches`` and ``load`` of a bucket read, in which order. Only numbers are
computed.

A window is shuffled by a permutation that is computed, not drawn, so a stream can be entered in
the middle by leaving out what comes before. The windows and their seeds are those of ``load``
(``order.host_windows``). Only the permutation inside a window differs, because ``load`` uses
TensorFlow's own shuffle, or what ``buffer_order`` says of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardfeed.sampling import order
from shardfeed.sampling.blocks import Block, Blocks
from shardfeed.sampling.host_share import Runs, runs_in
from shardfeed.sampling.streams import host_streams


class RecordRun(NamedTuple):
    """``take`` records of ``block``, after its first ``skip``."""

    block: Block
    skip: int
    take: int


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """Runs that are in memory together, and the order in which their records are used.

    ``rows``: where those records go, counted from the first row that was asked for. Windows come
    in the order of their first rows.
    """

    runs: tuple[RecordRun, ...]
    order: Sequence[int]
    rows: range


def hashed_order(count: int, seed: int) -> Sequence[int]:
    """The order of a window in ``array_batches``."""
    found: list[int] = order.permutation(count, seed).tolist()
    return found


def training_windows(
    blocks: Blocks,
    *,
    seed: int,
    window_bytes: int,
    host: int,
    hosts: int,
    start: int,
    count: int | None,
    shuffle: Callable[[int, int], Sequence[int]] = hashed_order,
) -> Iterator[ReadWindow]:
    """This host's stream from its row ``start`` on: ``count`` rows, or without end.

    ``shuffle``: from a number of records and a seed to the order of a window.
    """
    streams = host_streams(int(blocks.records.sum()), len(blocks), host, hosts)
    size = order.window_blocks(blocks, window_bytes, streams)
    stop = math.inf if count is None else start + count
    for epoch in itertools.count(streams.place(start)[0]):
        for window in order.host_windows(blocks, seed, epoch, size, streams, start):
            rows = window.rows
            if rows.start >= stop:
                return
            if rows[-1] >= stop:
                rows = range(rows.start, int(stop), rows.step)
            permuted = shuffle(int(window.runs.take.sum()), window.seed)[window.skip :][: len(rows)]
            rows = range(rows.start - start, rows.stop - start, rows.step)
            yield ReadWindow(tuple(_each(blocks, window.runs)), permuted, rows)


def evaluation_windows(blocks: Blocks, mine: range) -> Iterator[ReadWindow]:
    """The records ``mine`` of the split once, in the order of the shards, one block per window."""
    row = 0
    for run in _each(blocks, runs_in(blocks.records, mine)):
        yield ReadWindow((run,), range(run.take), range(row, row + run.take))
        row += run.take


def _each(blocks: Blocks, runs: Runs) -> Iterator[RecordRun]:
    skips = blocks.skip[runs.block] + runs.skip
    for block, skip, take in zip(runs.block.tolist(), skips.tolist(), runs.take.tolist(), strict=True):
        yield RecordRun(blocks[block], skip, take)
