"""``cache="decoded"``: all images of a split in host memory, decoded once.

The images stay NumPy arrays. A tensor that a graph holds is copied into it for every iterator
(2.6 GB took 14 s and twice the memory, TensorFlow 2.21), and ``Dataset.cache`` would repeat the
order of the first epoch for ever. This is for small sets: 224 × 224 pixels take seven times the
bytes of their JPEGs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.format.manifest import ImageInfo
from shardfeed.tfdata.decode import ChunkDecoder, Columns, DecodeOptions


def lookup(batches: tf.data.Dataset, image: ImageInfo, options: DecodeOptions) -> ChunkDecoder:
    """Reads all ``batches``; the decoder takes numbers of records, int64[n], instead of records."""
    images: list[Any] = []
    tables: dict[str, list[Any]] = {}
    for columns in batches.as_numpy_iterator():
        images.extend(columns.pop("image"))
        for name, values in columns.items():
            tables.setdefault(name, []).append(values)
    columns = {name: tf.constant(np.concatenate(values)) for name, values in tables.items()}
    pixels = (
        _cropped(images, columns.get("size"), image, options) if options.crop == "random_resized" else _whole(images)
    )
    output = options.output(image)

    def look_up(numbers: Any, positions: Any) -> Columns:
        found = {"image": tf.ensure_shape(pixels(numbers, positions), [None, *output.shape])}
        found["image"] = tf.reshape(found["image"], [tf.size(numbers), *output.shape])
        return found | {name: tf.gather(table, numbers) for name, table in columns.items()}

    return look_up


def _whole(images: list[Any]) -> Any:
    def stack(numbers: Any) -> Any:
        return np.stack([images[number] for number in numbers])

    return lambda numbers, positions: tf.numpy_function(stack, [numbers], tf.uint8, stateful=False)


def _cropped(images: list[Any], sizes: Any, image: ImageInfo, options: DecodeOptions) -> Any:
    def cut(number: Any, box: Any) -> Any:
        top, left, height, width = box
        return np.ascontiguousarray(images[number][top : top + height, left : left + width])

    def crop(one: tuple[Any, Any]) -> Any:
        pixels = tf.numpy_function(cut, one, tf.uint8, stateful=False)
        return options.resized(tf.ensure_shape(pixels, [None, None, image.channels]), image)

    def pixels(numbers: Any, positions: Any) -> Any:
        boxes = options.boxes(tf.gather(sizes, numbers), positions)
        return tf.map_fn(crop, (numbers, boxes), fn_output_signature=options.output(image))

    return pixels
