"""Serialised records to columns of a batch, a chunk at a time, by the manifest's image format.

One function call per chunk instead of one per image: an empty per-record map costs 60 µs in
TensorFlow 2.21, a fifth of a decode. Only decoding, cropping and resizing happen here. What a
device does at no cost (flips, normalisation) belongs in the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from shardfeed.dataset.shown_columns import LONGER, ShownColumn
from shardfeed.errors import UsageError
from shardfeed.format.manifest import ImageInfo
from shardfeed.sampling.boxes import center_side
from shardfeed.tfdata import crops

Columns = dict[str, Any]
ChunkDecoder = Callable[[Any, Any], Columns]
"""From serialised records, string[n], and their stream positions, int64[n], to n rows."""

_FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "class": tf.io.FixedLenFeature([], tf.int64),
    "size": tf.io.FixedLenFeature([2], tf.int64),
    "key": tf.io.FixedLenFeature([], tf.string),
}

_SEVERAL = tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-1)

# The accurate inverse DCT gives Pillow's pixels exactly, at the same speed (2,829 and 2,799 img/s
# on one core). The default is off by 1.2 levels on average and up to 20 (200 photos, 224 × 224,
# quality 95, TensorFlow 2.21).
_DCT = "INTEGER_ACCURATE"
# Columns: libjpeg interpolates colour across the edge of a box. Without it, 273 of 912 boxes were
# up to 43 levels off.
_MARGIN = 2


@dataclass(frozen=True)
class DecodeOptions:
    """What becomes of a record.

    Attributes:
        size: Height and width of the pixels handed out; None leaves images as they are stored.
        crop: None, "center" or "random_resized".
        crop_seed: ``order.crop_seed``, for "random_resized".
        classes: Number of classes. A record of another class makes reading fail; 0 = not checked.
        onehot: Labels are one-hot rows of ``classes``, not indices.
        label_kind: As in the manifest. Of several labels, rows of ``classes`` have a 1 for each.
        columns: Extra columns that are handed out.
    """

    size: tuple[int, int] | None
    crop: str | None = None
    crop_seed: int = 0
    classes: int = 0
    onehot: bool = False
    label_kind: str = "single"
    columns: tuple[ShownColumn, ...] = ()

    def boxes(self, sizes: Any, positions: Any) -> Any:
        """Boxes int32[n, 4] of images of ``sizes`` int64[n, 2]."""
        sizes = tf.cast(sizes, tf.int32)
        if self.crop == "center":
            return crops.center_boxes(sizes)
        return crops.random_boxes(sizes, positions, self.crop_seed)

    def output(self, image: ImageInfo) -> tf.TensorSpec:
        """Shape and type of one image handed out."""
        return tf.TensorSpec([*(self.size or (image.height, image.width)), image.channels], tf.uint8)

    def resized(self, pixels: Any, image: ImageInfo) -> Any:
        """``pixels`` in the size handed out; not touched if the graph knows that they have it."""
        shape = self.output(image).shape
        return pixels if pixels.shape == shape else tf.ensure_shape(crops.resized(pixels, *shape[:2]), shape)


def chunk_decoder(image: ImageInfo, options: DecodeOptions, columns: Sequence[str] = ()) -> ChunkDecoder:
    """Decoder to the columns image, uint8[n, h, w, c], and label, and to ``columns`` as stored.

    The extra columns of ``options`` come with them. Without labels there is no column label.
    """
    names = {"image", *columns}
    if options.crop is not None or image.format == "raw":
        names.add("size")
    features = {name: _FEATURES[name] for name in sorted(names)}
    if options.label_kind != "none":
        features["class"] = _FEATURES["class"] if options.label_kind == "single" else _SEVERAL
    features |= {shown.name: _feature(shown) for shown in options.columns}
    unchanged = options.crop is None and options.size in (None, (image.height, image.width))
    if image.format == "raw" and unchanged and image.height and image.width:
        pixels = _raw_chunk(image.height, image.width, image.channels)
    else:
        pixels = _one_by_one(image, options)

    def decode(serialized: Any, positions: Any) -> Columns:
        parsed = tf.io.parse_example(serialized, features)
        found = {"image": pixels(parsed, positions)}
        if options.label_kind != "none":
            found["label"] = labels(parsed["class"], options)
        found |= {name: parsed[name] for name in columns}
        return found | {shown.name: _shown(parsed[shown.name], shown) for shown in options.columns}

    return decode


def labels(indices: Any, options: DecodeOptions) -> Any:
    """int32[n], or float32[n, classes]: one-hot, or a 1 for each of several labels.

    Of several labels, ``indices`` is int64[n, most], filled up with -1.
    """
    if options.label_kind == "multi":
        if options.classes:
            tf.debugging.assert_less(indices, tf.constant(options.classes, tf.int64))
        # Without a label in all of the batch the maximum is over nothing: -inf.
        return tf.maximum(tf.reduce_max(tf.one_hot(indices, options.classes), axis=1), 0)
    # A look-up refuses what is out of range; a cast would hand it on, and one_hot make it a row of
    # zeros.
    checked = tf.gather(tf.range(options.classes), indices) if options.classes else tf.cast(indices, tf.int32)
    return tf.one_hot(checked, options.classes) if options.onehot else checked


def _feature(shown: ShownColumn) -> Any:
    kind = {"O": tf.string, "float32": tf.float32}.get(shown.dtype, tf.int64)
    if shown.varies:
        return tf.io.FixedLenSequenceFeature([], kind, allow_missing=True)
    return tf.io.FixedLenFeature(shown.shape, kind)


def _shown(values: Any, shown: ShownColumn) -> Any:
    """A parsed column as it is handed out."""
    if shown.varies:  # filled up to the longest list of the chunk
        found = tf.shape(values)[1]
        message = f"column {shown.name}: a list {LONGER}, {shown.length}; pass a larger one"
        with tf.control_dependencies([tf.debugging.assert_less_equal(found, shown.length, message)]):
            values = tf.pad(values, [[0, 0], [0, tf.maximum(shown.length - found, 0)]])
        values = tf.ensure_shape(values, [None, shown.length])
    return tf.cast(values, tf.bool) if shown.dtype == "bool" else values


def _raw_chunk(*shape: int) -> Callable[[Columns, Any], Any]:
    """All images at once, if they are of one size and stay as stored."""

    def decode(parsed: Columns, positions: Any) -> Any:
        pixels = tf.ensure_shape(tf.io.decode_raw(parsed["image"], tf.uint8), [None, math.prod(shape)])
        return tf.reshape(pixels, [-1, *shape])

    return decode


def _one_by_one(image: ImageInfo, options: DecodeOptions) -> Callable[[Columns, Any], Any]:
    decode, jpeg = _image_decoder(image), image.format == "jpeg"
    output = options.output(image)
    box_size = _box_size(image, options)

    def shown(data: Any, size: Any = None, box: Any = None) -> Any:
        if box is None:
            return options.resized(decode(data, size), image)
        part = _jpeg_part(data, size, box, image.channels) if jpeg else crops.cropped(decode(data, size), box)
        return options.resized(tf.ensure_shape(part, [*box_size, image.channels]), image)

    def pixels(parsed: Columns, positions: Any) -> Any:
        inputs = [parsed["image"]]
        if options.crop is not None or image.format == "raw":
            inputs.append(parsed["size"])
        if options.crop is not None:
            inputs.append(options.boxes(parsed["size"], positions))
        return tf.map_fn(lambda one: shown(*one), tuple(inputs), fn_output_signature=output)

    return pixels


def _box_size(image: ImageInfo, options: DecodeOptions) -> tuple[int | None, int | None]:
    """Height and width of every box, or None if they vary."""
    if options.crop != "center" or image.height is None or image.width is None:
        return None, None
    side = center_side(min(image.height, image.width))
    return side, side


def _jpeg_part(data: Any, whole: Any, box: Any, channels: int) -> Any:
    """The same pixels of ``box`` as in the whole image, by decoding little more than the box."""
    top, left, height, width = tf.unstack(box)
    first = tf.maximum(left - _MARGIN, 0)
    last = tf.minimum(left + width + _MARGIN, tf.cast(whole[1], tf.int32))
    part = tf.image.decode_and_crop_jpeg(data, [top, first, height, last - first], channels=channels, dct_method=_DCT)
    return part[:, left - first : left - first + width]


def _image_decoder(image: ImageInfo) -> Callable[[Any, Any], Any]:
    """From one stored image and its size, int64[2] (for raw only), to its pixels uint8[h, w, c]."""
    if image.format == "webp" and not hasattr(tf.io, "decode_webp"):
        raise UsageError(
            f"the images are WebP, which TensorFlow {tf.__version__} does not decode. Install a newer TensorFlow, 2.21 does."
        )
    channels = image.channels
    decode: Callable[[Any, Any], Any] = {
        "jpeg": lambda data, size: tf.io.decode_jpeg(data, channels=channels, dct_method=_DCT),
        "png": lambda data, size: tf.io.decode_png(data, channels=channels),
        "webp": lambda data, size: _webp(data, channels),
        "raw": lambda data, size: tf.reshape(tf.io.decode_raw(data, tf.uint8), [size[0], size[1], channels]),
    }[image.format]
    return lambda data, size: tf.ensure_shape(decode(data, size), [image.height, image.width, channels])


def _webp(data: Any, channels: int) -> Any:
    pixels = tf.squeeze(tf.io.decode_webp(data, channels=3), axis=0)  # an animation of one frame
    if channels == 3:
        return pixels
    # WebP stores colour only. This is the rounding of Pillow's convert("L").
    weighted = tf.cast(pixels, tf.int32) * tf.constant([19595, 38470, 7471])
    gray = tf.bitwise.right_shift(tf.reduce_sum(weighted, axis=2, keepdims=True) + 0x8000, 16)
    return tf.cast(gray, tf.uint8)
