"""Where images are cropped, and how they are resized. Boxes are computed per chunk.

A random box depends on (seed, position in the order of all hosts) and nothing else, by the hash
that also gives the order. So a resumed stream has the same crops to the pixel, on another number
of hosts too. TensorFlow's random operations would depend on where the stream was entered.

``random_resized`` draws as torchvision's RandomResizedCrop does: an area, uniform in 8 to 100 % of
the image, and a ratio of width to height, log-uniform in 3/4 to 4/3. It draws up to ten times
until the box fits; otherwise it takes the largest central box of an allowed ratio. Flips and
colours belong into the model, where they cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.tfdata.records import hashed

_TRIES = 10
_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)
_UNIT = 2.0**-53  # a draw has the 53 bits of a float64


def center_side(short: Any) -> Any:
    """Side of the central square, from the short side: a tensor or an int."""
    return (7 * short + 4) // 8  # a side of 1 gives 1


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
    draws = _draws(positions, seed, 2 * _TRIES + 2)
    area = height * width * (_AREA[0] + (_AREA[1] - _AREA[0]) * draws[:, :_TRIES])
    low, high = np.log(_RATIO)
    ratio = tf.exp(low + (high - low) * draws[:, _TRIES : 2 * _TRIES])
    tall, wide = tf.round(tf.sqrt(area / ratio)), tf.round(tf.sqrt(area * ratio))
    fits = (tall >= 1) & (wide >= 1) & (tall <= height) & (wide <= width)
    first = tf.argmax(fits, axis=1)[:, None]
    allowed = tf.concat(
        [
            tf.minimum(height, tf.maximum(tf.round(width / _RATIO[0]), 1)),
            tf.minimum(width, tf.maximum(tf.round(height * _RATIO[1]), 1)),
        ],
        axis=1,
    )
    drawn = tf.concat([tf.gather(tall, first, batch_dims=1), tf.gather(wide, first, batch_dims=1)], axis=1)
    fitting = tf.reduce_any(fits, axis=1, keepdims=True)
    box = tf.where(fitting, drawn, tf.minimum(size, allowed))
    corner = tf.where(fitting, tf.floor(draws[:, 2 * _TRIES :] * (size - box + 1)), tf.floor((size - box) / 2))
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
    return tf.cast(tf.bitwise.right_shift(words, tf.constant(11, tf.uint64)), tf.float64) * _UNIT
