"""Evaluation batches of one size whose padding does not count: weights that keep Keras exact.

A real row has the weight all rows / real rows, over all hosts, and a row of padding 0. Keras
divides a loss by the rows of its batches, padding included. These weights make ``loss`` with the
default reduction and ``weighted_metrics`` exact again. Reductions that divide by the weights
("mean_with_sample_weight") or by nothing ("sum") stay wrong: Keras averages their batches as if
all were full, and no weights serve both them and the default.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.tfdata.decode import Columns


def weighed(columns: Columns, weight: float, rows: int | None) -> Columns:
    """``columns`` with ``weight``, and filled up to ``rows`` with zeros (b"" for text) of weight 0.

    ``rows`` is None for batches without padding.
    """
    real = tf.shape(columns["image"])[0]
    if rows is None:
        return columns | {"weight": tf.fill([real], np.float32(weight))}
    filled = {name: _fill(values, rows - real, rows) for name, values in columns.items()}
    return filled | {"weight": tf.where(tf.range(rows) < real, np.float32(weight), np.float32(0))}


def followed_by_padding(batches: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """``batches`` and then ``count`` batches of padding, so that all hosts give the same number."""
    empty = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), batches.element_spec)
    return batches.concatenate(tf.data.Dataset.from_tensors(empty).repeat(count))


def _fill(values: Any, missing: Any, batch_size: int) -> Any:
    rest = values.shape[1:]
    # Only the last batch pays for a copy of its pixels.
    whole = tf.cond(missing > 0, lambda: tf.pad(values, [[0, missing], *[[0, 0]] * len(rest)]), lambda: values)
    return tf.ensure_shape(whole, [batch_size, *rest])
