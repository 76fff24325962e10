"""The order of a training stream, computed: which blocks, in which windows, from which record.

There is no state. Each epoch permutes the split's blocks by hash(seed, epoch) and cuts them into
streams (``shardfeed.sampling.streams``). A stream is cut into windows of K blocks. Inside a window,
the records are shuffled by hash(seed, epoch, window). So every position of the stream can be
computed without the positions before it. The order depends on (seed, epoch, K) alone: not on batch
size, cores, readers, or where the shards lie, and not on the number of hosts as long as it divides
the streams. A classic shuffle buffer cannot be entered in the middle.

Shards are shuffled on disk, so windows of blocks from all over the split are as good as a global
shuffle needs to be. ``shardfeed.tfdata.records`` says the same in TensorFlow; a test compares
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardfeed.sampling.blocks import Blocks, Ints
from shardfeed.sampling.host_share import Runs, runs_up_to
from shardfeed.sampling.streams import Streams

# 2**64 / golden ratio: the increment of SplitMix64 (Steele, Lea, Flood 2014)
GOLDEN = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of its finaliser, with shifts 30, 27, 31
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Window:
    """Runs of records that are read and shuffled together, by ``seed``.

    ``rows``: numbers of the shuffled records, after the first ``skip``, in the host's stream.
    """

    seed: int
    runs: Runs
    skip: int
    rows: range


def window_blocks(blocks: Blocks, window_bytes: int, streams: Streams) -> int:
    """K: blocks per window, so that the windows of all streams together have ``window_bytes``.

    At least 1 and at most all. The host's number is not asked, so all hosts cut alike.
    """
    average = window_bytes * len(blocks) / int(blocks.bytes.sum())
    return max(1, min(len(blocks), round(average / streams.count)))


def stream_seed(seed: int) -> int:
    """The first number of a sequence; each epoch takes its seed from it."""
    return mix_one(seed & _MASK)


def epoch_seed(seed: int, epoch: int) -> int:
    """hash(seed, epoch), which permutes the blocks."""
    return mix_one(stream_seed(seed) + (epoch + 1) * GOLDEN)


def window_seed(seed: int, epoch: int, window: int) -> int:
    """hash(seed, epoch, window), which shuffles the records of one window.

    ``window`` is the position in the pass of its first record.
    """
    return mix_one(mix_one(epoch_seed(seed, epoch)) + (window + 1) * GOLDEN)


def crop_seed(seed: int) -> int:
    """A number which, hashed with the global position of a record, gives its random crop."""
    # no epoch uses mix(stream_seed)
    return mix_one(mix_one(stream_seed(seed)) + GOLDEN)


def permutation(count: int, seed: int) -> Ints:
    """0 … count - 1 sorted by their hashes."""
    keys = mix(np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))
    # 63 bits: TensorFlow sorts signed ones
    return np.argsort((keys >> np.uint64(1)).astype(np.int64), kind="stable")


def host_windows(
    blocks: Blocks, seed: int, epoch: int, size: int, streams: Streams, start: int = 0
) -> Iterator[Window]:
    """The windows of ``size`` blocks of an epoch on one host that hold rows from ``start`` on.

    They come in the order in which their first rows are needed.
    """
    order = permutation(len(blocks), epoch_seed(seed, epoch))
    ends, slots = np.cumsum(blocks.records[order]), streams.slots
    cuts = [_stream_cut(ends, size, streams, streams.stream(slot, epoch)) for slot in range(slots)]
    slot = np.repeat(np.arange(slots), [len(cut.rows) for cut in cuts])
    number = np.concatenate([np.arange(len(cut.rows)) for cut in cuts])
    first = np.concatenate([cut.rows for cut in cuts])
    last = first + (np.concatenate([cut.records for cut in cuts]) - 1) * slots
    entered = np.maximum(first, start + (first - start) % slots)
    due = np.flatnonzero(entered <= last)
    for i in due[np.argsort(entered[due], kind="stable")].tolist():
        cut, rows = cuts[slot[i]], range(int(entered[i]), int(last[i]) + 1, slots)
        window_runs = cut.runs[cut.edges[number[i]] : cut.edges[number[i] + 1]]
        runs = Runs(order[window_runs.block], window_runs.skip, window_runs.take)
        seed_of_window = window_seed(seed, epoch, int(cut.positions[number[i]]))
        yield Window(seed_of_window, runs, int(entered[i] - first[i]) // slots, rows)


class _StreamCut(NamedTuple):
    """One stream of a pass in windows; ``runs`` are of places in the permutation.

    Window number w has the runs from ``edges[w]`` to ``edges[w + 1]`` and ``records[w]`` records.
    The first one is row ``rows[w]`` of the host and ``positions[w]`` of the pass.
    """

    runs: Runs
    edges: Ints
    records: Ints
    rows: Ints
    positions: Ints


def _stream_cut(ends: Ints, size: int, streams: Streams, stream_and_row: tuple[int, int]) -> _StreamCut:
    stream, row = stream_and_row
    begin = int(streams.starts[stream])
    runs = runs_up_to(ends, range(begin, begin + int(streams.lengths[stream])))
    if streams.backwards[stream]:
        runs = runs[::-1]
    phase = int(streams.phases(size)[stream])
    edges = np.clip(np.arange(-(-(len(runs) + phase) // size) + 1) * size - phase, 0, len(runs))
    before = np.concatenate([[0], np.cumsum(runs.take)])[edges]
    positions = streams.first + before[:-1] * streams.count + stream
    return _StreamCut(runs, edges, np.diff(before), row + before[:-1] * streams.slots, positions)


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: a bijection of 64-bit words; every bit depends on every bit."""
    for shift, factor in zip((30, 27), FACTORS, strict=True):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


def mix_one(value: int) -> int:
    """``mix`` of one word; only the low 64 bits of ``value`` count."""
    return int(mix(np.array([value & _MASK], np.uint64))[0])
