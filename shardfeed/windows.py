"""Serialised records in the order of ``shardfeed.order``, as tf.data.

Two decisions. A block is read by seeking (``TFRecordDatasetV2`` with a byte offset), so entering the stream anywhere costs
one window. And parallel readers do not touch the order: ``interleave`` with an unbounded block length drains its inputs
one after the other, whatever the number of readers, which only read ahead.

The shuffle is the raw op with both seeds given. ``Dataset.shuffle`` mixes in the global seed, so the order would change
with ``keras.utils.set_random_seed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed import order

_FOREVER = 1 << 62  # epochs; an int64 that no stream reaches
_UNBOUNDED = 1 << 40  # records; longer than any block
_BUFFER = 256 << 10  # bytes a local read; TensorFlow's own default. A gs:// read is as long as its cache block


def training_records(
    paths: Sequence[str], blocks: order.Blocks, *, seed: int, window: int, readers: int, start: int = 0
) -> tf.data.Dataset:
    """Records without end: epoch after epoch in windows of ``window`` blocks, from record number ``start`` on."""
    first = order.position(blocks, seed, window, start)
    files = tf.constant(paths)
    shard, offset, records = (tf.constant(part) for part in (blocks.shard, blocks.offset, blocks.records))
    base = _word(order.stream_seed(seed))

    def epoch_records(epoch: Any) -> tf.data.Dataset:
        epoch_seed = _mix(base + tf.cast(epoch + 1, tf.uint64) * _word(order.GOLDEN))
        permuted = permutation(len(blocks), epoch_seed)

        def window_records(number: Any) -> tf.data.Dataset:
            ids = permuted[number * window : (number + 1) * window]
            counts = tf.gather(records, ids)
            spans = (tf.gather(files, tf.gather(shard, ids)), tf.gather(offset, ids), counts)
            seed = _mix(_mix(epoch_seed) + tf.cast(number + 1, tf.uint64) * _word(order.GOLDEN))
            entered = (epoch == first.epoch) & (number == first.window)
            skipped = tf.where(entered, tf.constant(first.skip, tf.int64), 0)
            return _shuffled(_read(spans, readers), tf.reduce_sum(counts), seed).skip(skipped)

        number = tf.where(epoch == first.epoch, tf.constant(first.window, tf.int64), 0)
        return tf.data.Dataset.range(number, -(-len(blocks) // window)).flat_map(window_records)

    return tf.data.Dataset.range(first.epoch, _FOREVER).flat_map(epoch_records)


def sequential_records(paths: Sequence[str], spans: Sequence[order.Span], *, readers: int) -> tf.data.Dataset:
    """The records of ``spans``, once, in their order."""
    offsets = np.array([span.offset for span in spans], np.int64)
    counts = np.array([span.records for span in spans], np.int64)
    return _read(([paths[span.shard] for span in spans], offsets, counts), readers)


def permutation(count: int, seed: Any) -> Any:
    """``order.permutation`` for a uint64 tensor ``seed``."""
    keys = _mix(tf.cast(tf.range(count), tf.uint64) * _word(order.GOLDEN) + seed)
    return tf.argsort(tf.cast(tf.bitwise.right_shift(keys, _word(1)), tf.int64), stable=True)


def _read(spans: Any, readers: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(spans).interleave(
        lambda path, offset, count: _records_from(path, offset).take(count),
        cycle_length=readers,
        block_length=_UNBOUNDED,
        num_parallel_calls=readers if readers > 1 else None,
        deterministic=True if readers > 1 else None,
    )


def _records_from(path: Any, offset: Any) -> tf.data.Dataset:
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=tf.reshape(path, [1]),
        compression_type="",
        buffer_size=tf.constant(_BUFFER, tf.int64),
        byte_offsets=tf.reshape(offset, [1]),
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def _shuffled(records: tf.data.Dataset, count: Any, seed: Any) -> tf.data.Dataset:
    # A buffer as long as its input makes a uniform permutation. A pair of seeds (0, 0) would mean «random», hence the 1.
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(records),
        buffer_size=count,
        seed=tf.bitcast(seed, tf.int64),
        seed2=tf.constant(1, tf.int64),
        output_types=[tf.string],
        output_shapes=[tf.TensorShape([])],
        reshuffle_each_iteration=False,
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def _word(value: int) -> Any:
    return tf.constant(np.uint64(value))


def _mix(words: Any) -> Any:
    """``order.mix`` on uint64 tensors."""
    for shift, factor in zip((30, 27), order.FACTORS, strict=True):
        words = tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, _word(shift))) * _word(factor)
    return tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, _word(31)))
