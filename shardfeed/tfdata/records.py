"""Serialised records of a folder in the order of ``shardfeed.sampling.order``, as tf.data.

A block is read by seeking (``TFRecordDatasetV2`` with a byte offset), so entering the stream
anywhere costs one window per slot.

The shuffle is the raw op with both seeds given. ``Dataset.shuffle`` mixes in the global seed, so
the order would change with ``keras.utils.set_random_seed``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.sampling import order
from shardfeed.sampling.blocks import Blocks
from shardfeed.sampling.buffer_order import SECOND_SEED
from shardfeed.sampling.streams import Streams

RunReader = Callable[[Any, Any, Any], tf.data.Dataset]
"""From runs (int64[n] of block, records to skip, to take) to what they hold, in order."""

_FOREVER = 1 << 62  # epochs; an int64 that no stream reaches
_BUFFER = 256 << 10  # bytes per read; TensorFlow's own default


def record_runs(paths: Sequence[str], blocks: Blocks) -> RunReader:
    """Reader of the serialised records of runs, out of the shards at ``paths``."""
    files = tf.constant([os.fsencode(path) for path in paths], tf.string)
    shard, offset, skipped = (tf.constant(column) for column in (blocks.shard, blocks.offset, blocks.skip))

    def read_run(path: Any, offset: Any, skip: Any, take: Any) -> tf.data.Dataset:
        # Without the assertion, a shard that has been cut between two records meanwhile would only
        # end, and later records would fill the gap.
        return _records_from(path, offset).skip(skip).take(take).apply(tf.data.experimental.assert_cardinality(take))

    def read_runs(block: Any, skip: Any, take: Any) -> tf.data.Dataset:
        path = tf.gather(files, tf.gather(shard, block))
        skip += tf.gather(skipped, block)
        return tf.data.Dataset.from_tensor_slices((path, tf.gather(offset, block), skip, take)).flat_map(read_run)

    return read_runs


def number_runs(blocks: Blocks) -> RunReader:
    """Reader of the numbers of records in the split, for records that are in memory."""
    firsts = tf.constant(np.cumsum(blocks.records) - blocks.records)

    def count(block: Any, skip: Any, take: Any) -> tf.data.Dataset:
        first = tf.gather(firsts, block) + skip
        return tf.data.Dataset.from_tensor_slices((first, first + take)).flat_map(tf.data.Dataset.range)

    return count


def training_stream(
    blocks: Blocks,
    read_runs: RunReader,
    *,
    seed: int,
    window: int,
    streams: Streams,
    start: int = 0,
    count: int | None = None,
) -> tf.data.Dataset:
    """``count`` records (None: endless) of one host from its row ``start`` on.

    Their windows are those of ``order.host_windows``. The order is the same, whatever ``read_runs``
    gives.
    """
    rows = range(start, start + streams.slots)
    slots = tf.constant([row % streams.slots for row in rows], tf.int64)
    epochs, indices = (tf.constant(column, tf.int64) for column in zip(*map(streams.place, rows), strict=True))
    counts = tf.constant(
        [-1 if count is None else len(range(i, count, streams.slots)) for i in range(len(rows))], tf.int64
    )
    records = tf.constant(blocks.records)
    by_stream = tf.constant(
        [streams.starts, streams.starts + streams.lengths, streams.backwards, streams.phases(window)], tf.int64
    )
    base = _word(order.stream_seed(seed))
    # A million blocks are sorted in 0.2 s, and the first batch waits for all slots.
    entered_epoch = streams.place(start)[0]
    known = tf.constant(order.permutation(len(blocks), order.epoch_seed(seed, entered_epoch)))

    def slot_stream(slot: Any, first_epoch: Any, first_index: Any, count: Any) -> tf.data.Dataset:
        def epoch_stream(epoch: Any) -> tf.data.Dataset:
            epoch_seed = hashed(base, epoch)
            permuted = tf.cond(epoch == entered_epoch, lambda: known, lambda: permutation(len(blocks), epoch_seed))
            stream, _ = streams.stream(slot, epoch)
            start, stop, backwards, phase = tf.unstack(tf.gather(by_stream, stream, axis=1))
            runs = _runs_up_to(tf.cumsum(tf.gather(records, permuted)), start, stop)
            place, skip, take = (tf.where(backwards > 0, tf.reverse(column, [0]), column) for column in runs)
            place, length = tf.gather(permuted, place), tf.size(place, tf.int64)
            edges = tf.range(-(-(length + phase) // window) + 1) * window - phase
            edges = tf.clip_by_value(edges, 0, length)
            before = tf.gather(tf.concat([[0], tf.cumsum(take)], 0), edges)
            entered = tf.where(epoch == first_epoch, first_index, 0)

            def window_stream(begin: Any, end: Any, first: Any, stop: Any) -> tf.data.Dataset:
                runs = (tf.slice(column, [begin], [end - begin]) for column in (place, skip, take))
                seed = hashed(_mix(epoch_seed), streams.first + first * streams.count + stream)
                return _shuffled(read_runs(*runs), stop - first, seed).skip(tf.maximum(entered - first, 0))

            windows = edges[:-1], edges[1:], before[:-1], before[1:]
            ended = tf.reduce_sum(tf.cast(before[1:] <= entered, tf.int64))
            return tf.data.Dataset.from_tensor_slices(windows).skip(ended).flat_map(window_stream)

        return tf.data.Dataset.range(first_epoch, _FOREVER).flat_map(epoch_stream).take(count)

    every = tf.data.Dataset.from_tensor_slices((slots, epochs, indices, counts))
    return every.interleave(slot_stream, cycle_length=streams.slots, block_length=1)


def permutation(count: int, seed: Any) -> Any:
    """``order.permutation`` for a uint64 tensor ``seed``."""
    keys = _mix(tf.cast(tf.range(count), tf.uint64) * _word(order.GOLDEN) + seed)
    return tf.cast(tf.argsort(tf.cast(tf.bitwise.right_shift(keys, _word(1)), tf.int64), stable=True), tf.int64)


def _records_from(path: Any, offset: Any) -> tf.data.Dataset:
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=tf.reshape(path, [1]),
        compression_type="",
        buffer_size=tf.constant(_BUFFER, tf.int64),
        byte_offsets=tf.reshape(offset, [1]),
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def _shuffled(records: tf.data.Dataset, count: Any, seed: Any) -> tf.data.Dataset:
    # A buffer as long as its input makes a uniform permutation.
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(records),
        buffer_size=count,
        seed=tf.bitcast(seed, tf.int64),
        seed2=tf.constant(SECOND_SEED, tf.int64),
        output_types=[records.element_spec.dtype],
        output_shapes=[records.element_spec.shape],
        reshuffle_each_iteration=False,
    )
    return tf.data.experimental.from_variant(variant, records.element_spec)


def _runs_up_to(ends: Any, start: Any, stop: Any) -> tuple[Any, Any, Any]:
    """``host_share.runs_up_to`` on tensors: block, skip, take. There is at least one record."""
    row = tf.expand_dims(ends, 0)
    first = tf.raw_ops.UpperBound(sorted_inputs=row, values=[[start]], out_type=tf.int64)
    last = tf.raw_ops.LowerBound(sorted_inputs=row, values=[[stop]], out_type=tf.int64)
    block = tf.range(tf.squeeze(first), tf.squeeze(last) + 1)
    begins = tf.gather(tf.concat([[0], ends], 0), block)
    skip = tf.maximum(start - begins, 0)
    return block, skip, tf.minimum(tf.gather(ends, block), stop) - begins - skip


def hashed(seed: Any, numbers: Any) -> Any:
    """hash(seed, number), uint64: how ``order`` derives every seed from the one above it."""
    return _mix(seed + tf.cast(numbers + 1, tf.uint64) * _word(order.GOLDEN))


def _word(value: int) -> Any:
    return tf.constant(np.uint64(value))


def _mix(words: Any) -> Any:
    """``order.mix`` on uint64 tensors."""
    for shift, factor in zip((30, 27), order.FACTORS, strict=True):
        words = tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, _word(shift))) * _word(factor)
    return tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, _word(31)))
