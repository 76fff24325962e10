"""Columns beside image and label that ``as_dict=True`` hands out: key, size, and what else the records hold.

The one decision: a column has one static shape. The records of a split's first block tell which columns there are; one with
the same number of values in each of them keeps that number, any other is padded to ``max_len``. A record that does not fit
later stops the stream with TensorFlow's error: a ragged batch would stop a TPU.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.errors import DatasetError, UsageError, clip
from shardfeed.format import tfrecord
from shardfeed.format.example import decode_example

OWN = ("image", "class", "label", "size", "key", "weight")
"""Names that records or batches give a meaning; ``weight`` is of evaluation."""

_KINDS = {bytes: tf.string, int: tf.int64, float: tf.float32}


def features(info: DatasetInfo, split: SplitInfo, max_len: int | None) -> dict[str, Any]:
    """What ``parse_example`` reads for the columns beside image and label, by name.

    Raises:
        UsageError: a column whose number of values varies, without ``max_len``.
        DatasetError: the first block cannot be read as records.
    """
    found: dict[str, Any] = {
        "key": tf.io.FixedLenFeature([], tf.string),
        "size": tf.io.FixedLenFeature([2], tf.int64),
    }
    for name, (kind, lengths) in sorted(_extra(info, split).items()):
        if len(lengths) == 1:
            (length,) = lengths
            found[name] = tf.io.FixedLenFeature([] if length == 1 else [length], kind)
        elif max_len is None:
            raise UsageError(
                f"as_dict=True: column {clip(name)} has {min(lengths)} to {max(lengths)} values a record. "
                f"Pass max_len=, to which it is padded, for example max_len={max(lengths)}."
            )
        else:
            found[name] = tf.io.FixedLenSequenceFeature([], kind, allow_missing=True)
    return found


def padded(columns: Mapping[str, Any], parsed: Mapping[str, Any], max_len: int | None) -> dict[str, Any]:
    """``columns`` as parsed by ``parsed`` (of ``features``), those of varying length filled up with zeros or b""."""

    def fill(values: Any) -> Any:
        missing = tf.maximum((max_len or 0) - tf.shape(values)[1], 0)
        filled = tf.concat([values, tf.zeros([tf.shape(values)[0], missing], values.dtype)], axis=1)
        return tf.ensure_shape(filled, [None, max_len])

    varying = {name for name, feature in parsed.items() if isinstance(feature, tf.io.FixedLenSequenceFeature)}
    return {name: fill(values) if name in varying else values for name, values in columns.items()}


def _extra(info: DatasetInfo, split: SplitInfo) -> dict[str, tuple[Any, set[int]]]:
    """Type and numbers of values of each further column, over the records of the first block."""
    shard = split.shards[0]
    data = storage.open_store(info.url).read_range(shard.file, 0, shard.blocks[0][1])
    try:
        examples = [decode_example(record) for _, record in tfrecord.scan(io.BytesIO(data))]
    except ValueError as error:
        raise DatasetError(
            f"{clip(storage.join_url(info.url, shard.file))} is damaged: {clip(error)}. Copy the file from where the dataset "
            "is whole, or build the dataset again into an empty folder."
        ) from None
    kinds = {
        name: _KINDS[type(values[0])]
        for example in examples
        for name, values in example.items()
        if name not in OWN and values
    }
    return {name: (kind, {len(example.get(name, ())) for example in examples}) for name, kind in kinds.items()}
