"""Deep verification of one record: the columns, their types, and the image that they describe.

The decoder is an argument. ``verify`` decodes with simplejpeg or Pillow, as builds do.
``explain_errors`` decodes with TensorFlow, whose refusal is the one to explain.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any, cast

from shardfeed.errors import UsageError, clip
from shardfeed.format.example import Value, decode_example, encode_example
from shardfeed.format.manifest import ImageInfo, Manifest

COLUMNS: dict[str, tuple[type, int]] = {
    "class": (int, 1),
    "image": (bytes, 1),
    "key": (bytes, 1),
    "label": (bytes, 1),
    "size": (int, 2),
}
"""Columns of every record: type and number of values. Others may stand beside them."""


class RecordProblem(Exception):
    """What is wrong with a record."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what}: expected {expected}, found {found}")
        self.what, self.expected, self.found = what, expected, found


Look = Callable[[bytes, tuple[int, int]], tuple[int, int, str]]
"""Gives height, width and Pillow's mode of a compressed image.

It decodes the image if it has the given (height, width), and raises anything if that fails.
"""


class RecordCheck:
    """Checks records of one dataset; safe to share between threads.

    ``look``: None decodes with simplejpeg or Pillow.

    Raises:
        UsageError: the images are PNG or WebP and Pillow is not installed.
    """

    def __init__(self, manifest: Manifest, look: Look | None = None) -> None:
        self._classes, self._image = [name.encode() for name in manifest.classes], manifest.image
        self._look = look if look is not None or manifest.image.format == "raw" else _image_look(manifest.image)

    def __call__(self, data: bytes) -> tuple[bytes, int]:
        """(key, class index) of a record that is in order.

        Raises:
            RecordProblem: it is not.
        """
        columns = _columns(data)
        (index,), (label,), (key,) = columns["class"], columns["label"], columns["key"]
        if not 0 <= index < len(self._classes):
            raise RecordProblem("class", f"0 to {len(self._classes) - 1}", str(index))
        if label != self._classes[index]:
            raise RecordProblem("label", f"{clip(self._classes[index])}, the name of class {index}", clip(label))
        if not key:
            raise RecordProblem("key", "a key", "none")
        height, width = columns["size"]
        _check_size(height, width, self._image)
        self._check_image(columns["image"][0], height, width)
        return key, index

    def _check_image(self, image: bytes, height: int, width: int) -> None:
        info = self._image
        if self._look is None:  # raw pixels
            if len(image) != height * width * info.channels:
                expected = f"{height} x {width} x {info.channels} bytes of pixels"
                raise RecordProblem("image", expected, f"{len(image)} bytes")
            return
        try:
            *found, mode = self._look(image, (height, width))
        except Exception as error:  # decoders raise nearly anything on damaged data, and all of it is a finding
            raise RecordProblem("image", f"a {info.format} image that decodes", decoder_text(error)) from None
        if found != [height, width]:
            raise RecordProblem(
                "image", f"{height} x {width} pixels as in its size column", f"{found[0]} x {found[1]} pixels"
            )
        allowed = ("L",) if info.channels == 1 and info.format != "webp" else ("RGB", "L")  # WebP has no gray
        if mode not in allowed:
            raise RecordProblem("image", f"{info.channels} channels", f"mode {mode}")


def decoder_text(error: Exception) -> str:
    """A decoder's error, the same in each run: without the address in memory that Pillow names."""
    text = str(error) if type(error) is ValueError else repr(error)
    return re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", text)


def _image_look(info: ImageInfo) -> Look:
    return _jpeg_look() if info.format == "jpeg" else _pillow_look(info)


def _jpeg_look() -> Look:
    """Decodes with simplejpeg, which refuses lost pixels and a lost end. libjpeg only warns."""
    import simplejpeg

    def look(image: bytes, size: tuple[int, int]) -> tuple[int, int, str]:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(image)
        mode = {"Gray": "L", "YCbCr": "RGB", "RGB": "RGB"}.get(colours, colours)
        if size == (height, width):
            simplejpeg.decode_jpeg(image, "GRAY" if mode == "L" else "RGB")
        return height, width, mode

    return look


def _pillow_look(info: ImageInfo) -> Look:
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(
            "deep verification decodes every image and needs Pillow, which is not installed. "
            "Install it with: pip install Pillow"
        ) from None

    def look(image: bytes, size: tuple[int, int]) -> tuple[int, int, str]:
        with Image.open(io.BytesIO(image), formats=[info.format.upper()]) as picture:
            if size == (picture.height, picture.width):
                picture.load()
            return picture.height, picture.width, picture.mode

    return look


def _columns(data: bytes) -> dict[str, Any]:
    try:
        columns = decode_example(data)
    except ValueError as error:
        raise RecordProblem("record", "a tf.train.Example", str(error)) from None
    if not columns.keys() >= COLUMNS.keys():
        raise RecordProblem("columns", ", ".join(COLUMNS), ", ".join(sorted(columns)))
    for name, (kind, count) in COLUMNS.items():
        values = columns[name]
        if len(values) != count or type(values[0]) is not kind:
            found = f"{len(values)} of {type(values[0]).__name__}" if values else "none"
            raise RecordProblem(f"column {name}", f"{count} of {kind.__name__}", found)
    # Of a column without values the type is not known, and so not its encoding.
    if all(columns.values()) and encode_example(cast(dict[str, Value], columns)) != data:
        raise RecordProblem("record", "the canonical encoding of its columns", "another encoding")
    return columns


def _check_size(height: int, width: int, info: ImageInfo) -> None:
    if height < 1 or width < 1 or height != (info.height or height) or width != (info.width or width):
        expected = f"{info.height or 'any height'} x {info.width or 'any width'} pixels"
        raise RecordProblem("size", expected, f"{height} x {width} pixels")
