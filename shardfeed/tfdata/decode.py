"""Serialised records to columns of a batch, a chunk at a time, by the manifest's image format.

One function call a chunk instead of one an image: an empty per-record map costs 60 µs in TensorFlow 2.21, a fifth of a
decode. Decoding, cutting and resizing is the only work here; what a device does for nothing (flips, normalisation) belongs
into the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from shardfeed.errors import UsageError
from shardfeed.format.manifest import ImageInfo
from shardfeed.tfdata import crops

Columns = dict[str, Any]
Decoder = Callable[[Any, Any], Columns]
"""From serialised records string[n] and their positions in the stream int64[n] to columns with n rows."""


@dataclass(frozen=True)
class Wanted:
    """What becomes of a record.

    Attributes:
        size: Height and width of the pixels handed out; None leaves images as they are stored.
        crop: None, "center" or "random_resized".
        crop_seed: ``order.crop_seed``, for "random_resized".
        classes: How many there are: a record's class is below, or reading fails; 0 = not checked.
        onehot: Labels are one-hot rows of ``classes``, not indices.
        features: What else is parsed, by column; ``size`` also where it is needed to crop.
    """

    size: tuple[int, int] | None
    crop: str | None = None
    crop_seed: int = 0
    classes: int = 0
    onehot: bool = False
    features: Mapping[str, Any] = field(default_factory=dict)

    def boxes(self, sizes: Any, positions: Any) -> Any:
        """Boxes int32[n, 4] of images of ``sizes`` int32[n, 2]."""
        return (
            crops.center_boxes(sizes) if self.crop == "center" else crops.random_boxes(sizes, positions, self.crop_seed)
        )

    def output(self, image: ImageInfo) -> tf.TensorSpec:
        """Of one image handed out."""
        return tf.TensorSpec([*(self.size or (image.height, image.width)), image.channels], tf.uint8)

    def sized(self, pixels: Any, image: ImageInfo) -> Any:
        """``pixels`` in the size handed out; nothing is resized where the graph knows that they have it."""
        shape = self.output(image).shape
        return pixels if pixels.shape == shape else tf.ensure_shape(crops.resized(pixels, *shape[:2]), shape)


def chunk_decoder(image: ImageInfo, wanted: Wanted) -> Decoder:
    """Function from records to the columns image (uint8[n, h, w, c]), label (int32[n]), and those of ``wanted.features``."""
    stored = (image.height, image.width)
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "class": tf.io.FixedLenFeature([], tf.int64),
        **wanted.features,
    }
    if wanted.crop is not None or image.format == "raw":
        features["size"] = tf.io.FixedLenFeature([2], tf.int64)
    whole = wanted.crop is None and wanted.size in (None, stored)
    pixels = _raw(image) if whole and image.format == "raw" else _each(image, wanted)

    def decode(serialized: Any, positions: Any) -> Columns:
        parsed = tf.io.parse_example(serialized, features)
        columns = {"image": pixels(parsed, positions), "label": labels(parsed["class"], wanted)}
        return columns | {name: parsed[name] for name in wanted.features}

    return decode


def labels(indices: Any, wanted: Wanted) -> Any:
    """int32[n], or float32[n, classes] one-hot."""
    # A look-up refuses what is out of range; a cast would hand it on, and one_hot make it a row of zeros.
    checked = tf.gather(tf.range(wanted.classes), indices) if wanted.classes else tf.cast(indices, tf.int32)
    return tf.one_hot(checked, wanted.classes) if wanted.onehot else checked


def _image_decoder(image: ImageInfo) -> Callable[..., Any]:
    """Function from one image, string, and its size, int64[2] (raw only), to its pixels uint8[h, w, c]."""
    one = _formats(image)[image.format]
    shape = [image.height, image.width, image.channels]
    return lambda data, size=None: tf.ensure_shape(one(data, size), shape)


def _raw(image: ImageInfo) -> Callable[[Columns, Any], Any]:
    shape = [image.height, image.width, image.channels]
    size = image.height * image.width * image.channels if image.height and image.width else None

    def decode(parsed: Columns, positions: Any) -> Any:
        pixels = tf.ensure_shape(tf.io.decode_raw(parsed["image"], tf.uint8), [None, size])
        return tf.reshape(pixels, [-1, *shape])

    return decode


def _each(image: ImageInfo, wanted: Wanted) -> Callable[[Columns, Any], Any]:
    decode = _image_decoder(image)
    output = wanted.output(image)

    def scale(parsed: Columns, positions: Any) -> Any:
        inputs = (parsed["image"], parsed["size"]) if image.format == "raw" else (parsed["image"],)
        return tf.map_fn(lambda one: wanted.sized(decode(*one), image), inputs, fn_output_signature=output)

    def crop(parsed: Columns, positions: Any) -> Any:
        sizes = parsed["size"]
        boxes = wanted.boxes(tf.cast(sizes, tf.int32), positions)
        cut = _cut(image, decode, _box_size(image, wanted))
        return tf.map_fn(
            lambda one: wanted.sized(cut(*one), image), (parsed["image"], sizes, boxes), fn_output_signature=output
        )

    return scale if wanted.crop is None else crop


def _box_size(image: ImageInfo, wanted: Wanted) -> tuple[int | None, int | None]:
    """Height and width of every box, None where they vary."""
    if wanted.crop != "center" or image.height is None or image.width is None:
        return None, None
    side = crops.center_side(min(image.height, image.width))
    return side, side


def _cut(
    image: ImageInfo, decode: Callable[[Any, Any], Any], size: tuple[int | None, int | None]
) -> Callable[..., Any]:
    def cut(data: Any, whole: Any, box: Any) -> Any:
        if image.format == "jpeg":
            pixels = _jpeg_part(data, whole, box, image.channels)
        else:
            pixels = crops.cut(decode(data, whole), box)
        return tf.ensure_shape(pixels, [*size, image.channels])

    return cut


# The accurate inverse DCT gives Pillow's pixels exactly, at the same speed (2,829 and 2,799 img/s on one core). The
# default is off by 1.2 levels on average and up to 20 (200 photos, 224 × 224, quality 95, TensorFlow 2.21).
_DCT = "INTEGER_ACCURATE"


_MARGIN = 2  # columns: libjpeg interpolates colour across the edge of a box; without it 273 of 912 boxes were up to 43 levels off


def _jpeg_part(data: Any, whole: Any, box: Any, channels: int) -> Any:
    """The pixels of ``box``, exactly those of the whole image, by decoding little more than the box."""
    top, left, height, width = tf.unstack(box)
    first = tf.maximum(left - _MARGIN, 0)
    last = tf.minimum(left + width + _MARGIN, tf.cast(whole[1], tf.int32))
    part = tf.image.decode_and_crop_jpeg(data, [top, first, height, last - first], channels=channels, dct_method=_DCT)
    return part[:, left - first : left - first + width]


def _formats(image: ImageInfo) -> dict[str, Callable[[Any, Any], Any]]:
    if image.format == "webp" and not hasattr(tf.io, "decode_webp"):
        raise UsageError(
            f"the images are WebP, which TensorFlow {tf.__version__} does not decode. Install a newer TensorFlow, 2.21 does."
        )
    channels = image.channels
    return {
        "jpeg": lambda data, size: tf.io.decode_jpeg(data, channels=channels, dct_method=_DCT),
        "png": lambda data, size: tf.io.decode_png(data, channels=channels),
        "webp": lambda data, size: _webp(data, channels),
        "raw": lambda data, size: tf.reshape(tf.io.decode_raw(data, tf.uint8), [size[0], size[1], channels]),
    }


def _webp(data: Any, channels: int) -> Any:
    pixels = tf.squeeze(tf.io.decode_webp(data, channels=3), axis=0)  # an animation of one frame
    if channels == 3:
        return pixels
    # WebP stores colour only. This is the rounding of Pillow's convert("L").
    weighted = tf.cast(pixels, tf.int32) * tf.constant([19595, 38470, 7471])
    gray = tf.bitwise.right_shift(tf.reduce_sum(weighted, axis=2, keepdims=True) + 0x8000, 16)
    return tf.cast(gray, tf.uint8)
