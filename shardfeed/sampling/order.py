"""The order of a training stream, computed: which blocks, in which windows, from which record.

There is no state. Each epoch permutes the split's blocks by hash(seed, epoch) and cuts them into
windows of K consecutive blocks. Inside a window, the records are shuffled by
hash(seed, epoch, window). So every position of the stream can be computed without the positions
before it. The order depends on (seed, epoch, K) and the host's share alone: not on batch size,
cores, readers, or where the shards lie. A classic shuffle buffer cannot be entered in the middle.

Shards are shuffled on disk, so a window of blocks from all over the split is as good as a global
shuffle needs to be. ``shardfeed.tfdata.records`` says the same in TensorFlow; a test compares
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardfeed.sampling.blocks import Blocks, Ints
from shardfeed.sampling.host_share import Runs, runs_in

# 2**64 / golden ratio: the increment of SplitMix64 (Steele, Lea, Flood 2014)
GOLDEN = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of its finaliser, with shifts 30, 27, 31
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Window:
    """Runs of records that are read and shuffled together, by ``seed``."""

    seed: int
    runs: Runs


def window_blocks(blocks: Blocks, window_bytes: int) -> int:
    """K: how many average blocks make ``window_bytes``; at least 1, at most all."""
    return max(1, min(len(blocks), round(window_bytes * len(blocks) / int(blocks.bytes.sum()))))


def stream_seed(seed: int) -> int:
    """The first number of a sequence; each epoch takes its seed from it."""
    return mix_one(seed & _MASK)


def epoch_seed(seed: int, epoch: int) -> int:
    """hash(seed, epoch), which permutes the blocks."""
    return mix_one(stream_seed(seed) + (epoch + 1) * GOLDEN)


def window_seed(seed: int, epoch: int, window: int) -> int:
    """hash(seed, epoch, window), which shuffles the records of one window."""
    return mix_one(mix_one(epoch_seed(seed, epoch)) + (window + 1) * GOLDEN)


def crop_seed(seed: int, host: int) -> int:
    """hash(seed, host), which with a position in the stream of that host gives its random crop."""
    # no epoch uses mix(stream_seed)
    return mix_one(mix_one(stream_seed(seed)) + (host + 1) * GOLDEN)


def permutation(count: int, seed: int) -> Ints:
    """0 … count - 1 sorted by their hashes."""
    keys = mix(np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))
    # 63 bits: TensorFlow sorts signed ones
    return np.argsort((keys >> np.uint64(1)).astype(np.int64), kind="stable")


def host_windows(blocks: Blocks, seed: int, epoch: int, size: int, mine: range) -> Iterator[Window]:
    """The records ``mine`` of an epoch's permuted blocks, in windows of ``size`` blocks.

    A window is hashed by the place of its first block in the permutation, so windows of different
    hosts differ.
    """
    order = permutation(len(blocks), epoch_seed(seed, epoch))
    runs = runs_in(blocks.records[order], mine)
    for first in range(0, len(runs), size):
        one = slice(first, first + size)
        places = runs.block[one]
        yield Window(window_seed(seed, epoch, int(places[0])), Runs(order[places], runs.skip[one], runs.take[one]))


def position(blocks: Blocks, seed: int, size: int, mine: range, record: int) -> tuple[int, int, int]:
    """Epoch, window and record in it of record number ``record`` of a host's endless stream.

    The other arguments are those of ``host_windows``.
    """
    epoch, left = divmod(record, len(mine))
    for number, window in enumerate(host_windows(blocks, seed, epoch, size, mine)):
        inside = int(window.runs.take.sum())
        if left < inside:
            return epoch, number, left
        left -= inside
    raise AssertionError("a split has at least one block and each block at least one record")


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: a bijection of 64-bit words; every bit depends on every bit."""
    for shift, factor in zip((30, 27), FACTORS, strict=True):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


def mix_one(value: int) -> int:
    """``mix`` of one word; only the low 64 bits of ``value`` count."""
    return int(mix(np.array([value & _MASK], np.uint64))[0])
