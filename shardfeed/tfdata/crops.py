"""Where images are cropped, and how they are resized, in TensorFlow. Boxes are computed per chunk.

``shardfeed.sampling.boxes`` is the definition, in NumPy. TensorFlow's random operations would
depend on where the stream was entered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.sampling.boxes import AREA, RATIO, TRIES, UNIT, center_side
from shardfeed.tfdata.records import hashed


def center_boxes(sizes: Any) -> Any:
    """Central squares int32[n, 4] (top, left, height, width) of images of ``sizes`` int32[n, 2].

    Its side is 0.875 of the short side, rounded half up (224 of 256).
    """
    side = center_side(tf.reduce_min(sizes, axis=1, keepdims=True))
    return tf.concat([(sizes - side) // 2, side, side], axis=1)


def random_boxes(sizes: Any, positions: Any, seed: int) -> Any:
    """Boxes int32[n, 4] at stream ``positions`` int64[n]; ``seed`` is ``order.crop_seed``."""
    size = tf.cast(sizes, tf.float64)
    height, width = size[:, :1], size[:, 1:]
    draws = _draws(positions, seed, 2 * TRIES + 2)
    area = height * width * (AREA[0] + (AREA[1] - AREA[0]) * draws[:, :TRIES])
    low, high = np.log(RATIO)
    ratio = tf.exp(low + (high - low) * draws[:, TRIES : 2 * TRIES])
    tall, wide = tf.round(tf.sqrt(area / ratio)), tf.round(tf.sqrt(area * ratio))
    fits = (tall >= 1) & (wide >= 1) & (tall <= height) & (wide <= width)
    first = tf.argmax(fits, axis=1)[:, None]
    allowed = tf.concat(
        [
            tf.minimum(height, tf.maximum(tf.round(width / RATIO[0]), 1)),
            tf.minimum(width, tf.maximum(tf.round(height * RATIO[1]), 1)),
        ],
        axis=1,
    )
    drawn = tf.concat([tf.gather(tall, first, batch_dims=1), tf.gather(wide, first, batch_dims=1)], axis=1)
    fitting = tf.reduce_any(fits, axis=1, keepdims=True)
    box = tf.where(fitting, drawn, tf.minimum(size, allowed))
    corner = tf.where(fitting, tf.floor(draws[:, 2 * TRIES :] * (size - box + 1)), tf.floor((size - box) / 2))
    return tf.cast(tf.concat([corner, box], axis=1), tf.int32)


def cropped(pixels: Any, box: Any) -> Any:
    """The part ``box`` int32[4] of ``pixels`` uint8[h, w, c]."""
    top, left, height, width = tf.unstack(box)
    return pixels[top : top + height, left : left + width]


def resized(pixels: Any, height: int, width: int) -> Any:
    """``pixels`` uint8[h, w, c] at another size: bilinear, antialiased, rounded.

    A cast without rounding would darken images by half a level.
    """
    scaled = tf.image.resize(pixels, [height, width], method="bilinear", antialias=True)
    return tf.cast(tf.round(scaled), tf.uint8)


def _draws(positions: Any, seed: int, count: int) -> Any:
    """Numbers float64[n, count] in [0, 1), each by hash(seed, position, number of the draw)."""
    base = hashed(tf.constant(seed, tf.uint64), positions)
    words = hashed(base[:, None], tf.range(count, dtype=tf.int64)[None, :])
    return tf.cast(tf.bitwise.right_shift(words, tf.constant(11, tf.uint64)), tf.float64) * UNIT
