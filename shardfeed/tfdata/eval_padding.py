"""Evaluation batches of one size whose padding does not count: weights that keep Keras exact.

A real row has the weight all rows / real rows, over all hosts, and a row of padding 0. Keras
divides a loss by the rows of its batches, padding included. These weights make ``loss`` with the
default reduction and ``weighted_metrics`` exact again. Reductions that divide by the weights
("mean_with_sample_weight") or by nothing ("sum") stay wrong: Keras averages their batches as if
all were full, and no weights serve both them and the default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.tfdata.decode import Columns


def filled(batch_size: int, weight: float) -> Callable[[Columns], Columns]:
    """Function that fills batches with zeros (b"" for text) to ``batch_size`` and adds weights."""

    def fill(columns: Columns) -> Columns:
        real = tf.shape(columns["label"])[0]
        weights = tf.where(tf.range(batch_size) < real, np.float32(weight), np.float32(0))
        return {name: _fill(values, batch_size - real, batch_size) for name, values in columns.items()} | {
            "weight": weights
        }

    return fill


def weighed(columns: Columns) -> Columns:
    """``columns`` with weights of 1, for batches without padding."""
    return columns | {"weight": tf.ones(tf.shape(columns["label"])[:1])}


def followed_by_padding(batches: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """``batches`` and then ``count`` batches of padding, so that all hosts give the same number."""
    empty = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), batches.element_spec)
    return batches.concatenate(tf.data.Dataset.from_tensors(empty).repeat(count))


def _fill(values: Any, missing: Any, batch_size: int) -> Any:
    rest = values.shape[1:]
    # Only the last batch pays for a copy of its pixels.
    whole = tf.cond(missing > 0, lambda: tf.pad(values, [[0, missing], *[[0, 0]] * len(rest)]), lambda: values)
    return tf.ensure_shape(whole, [batch_size, *rest])
