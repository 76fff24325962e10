"""Serialised records to pixels and labels, a chunk at a time, by the manifest's image format.

One function call a chunk instead of one an image: an empty per-record map costs 60 µs in TensorFlow 2.21, a fifth of a
decode. Decoding is the only work here; what a device does for nothing (flips, normalisation) belongs into the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from shardfeed.manifest import ImageInfo


def chunk_decoder(image: ImageInfo) -> Callable[[Any], tuple[Any, Any]]:
    """Function from serialised records, string[n], to (uint8[n, height, width, channels], int32[n])."""
    features = {"image": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
    decode = _raw(image) if image.format == "raw" else _each(image)

    def decode_chunk(serialized: Any) -> tuple[Any, Any]:
        parsed = tf.io.parse_example(serialized, features)
        return decode(parsed["image"]), tf.cast(parsed["class"], tf.int32)

    return decode_chunk


def _raw(image: ImageInfo) -> Callable[[Any], Any]:
    shape = [image.height, image.width, image.channels]
    size = image.height * image.width * image.channels if image.height and image.width else None

    def decode(encoded: Any) -> Any:
        pixels = tf.ensure_shape(tf.io.decode_raw(encoded, tf.uint8), [None, size])
        return tf.reshape(pixels, [-1, *shape])

    return decode


def _each(image: ImageInfo) -> Callable[[Any], Any]:
    one = {"jpeg": _jpeg, "png": _png, "webp": _webp}[image.format]
    shape = [image.height, image.width, image.channels]

    def decode(encoded: Any) -> Any:
        return tf.map_fn(
            lambda data: tf.ensure_shape(one(data, image.channels), shape),
            encoded,
            fn_output_signature=tf.TensorSpec(shape, tf.uint8),
        )

    return decode


def _jpeg(data: Any, channels: int) -> Any:
    return tf.io.decode_jpeg(data, channels=channels)


def _png(data: Any, channels: int) -> Any:
    return tf.io.decode_png(data, channels=channels)


def _webp(data: Any, channels: int) -> Any:
    # decode_jpeg decodes any format, a WebP as an animation of one frame, [1, height, width, channels], and in colour
    # only; the channels of a stored gray image are equal.
    frames = tf.io.decode_jpeg(data, channels=3)
    return tf.squeeze(frames, axis=0)[..., :channels]
