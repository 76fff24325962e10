"""One stored image to pixels without TensorFlow, by the manifest's image format.

simplejpeg decodes JPEG, Pillow everything else. simplejpeg uses libjpeg-turbo's accurate inverse
DCT and smooth upsampling, so the pixels are those of ``shardfeed.load`` to the bit. It refuses
damage of which libjpeg only warns, writes pixels straight into the batch, and takes half of
Pillow's time. OpenCV and imagecodecs are no faster (186 photos of 224 × 224, one thread: Pillow
2,036 img/s, simplejpeg 4,242, imagecodecs 4,132, OpenCV 3,324) and a hundred times as large. All
of them release the interpreter lock while they decode.
"""

from __future__ import annotations

import functools
import io
import math
import re
from collections.abc import Callable

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from shardfeed.errors import clip

Bytes = bytes | memoryview
Pixels = NDArray[np.uint8]
Shape = tuple[int, int, int]
"""Height, width and channels."""
ImageDecoder = Callable[[Bytes, Shape, Pixels | None], Pixels]
"""Pixels of a stored image of a shape, in an array of it if there is one. Raises RecordProblem."""


class RecordProblem(ValueError):
    """What is wrong with a record: ``what`` is not as ``expected``."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what}: expected {expected}, found {found}")
        self.what, self.expected, self.found = what, expected, found


def image_decoder(image_format: str) -> ImageDecoder:
    """Decoder of one of the manifest's formats. Safe to share between threads."""
    if image_format == "raw":
        return _raw
    return _jpeg if image_format == "jpeg" else functools.partial(_pillow, image_format)


def _raw(data: Bytes, shape: Shape, out: Pixels | None) -> Pixels:
    if len(data) != math.prod(shape):
        raise RecordProblem("image", f"{_text(shape)} bytes of pixels", f"{len(data)} bytes")
    return _placed(np.frombuffer(data, np.uint8).reshape(shape), out)


def _jpeg(data: Bytes, shape: Shape, out: Pixels | None) -> Pixels:
    expected = f"a jpeg image of {_text(shape)}"
    try:
        # Larger than the buffer is an error before anything is written; smaller shows in the shape
        # that comes back.
        pixels: Pixels = simplejpeg.decode_jpeg(data, "RGB" if shape[2] == 3 else "GRAY", buffer=out)
    except ValueError as error:
        raise RecordProblem("image", f"{expected} that decodes", _refusal(error)) from None
    if pixels.shape != shape:
        raise RecordProblem("image", expected, _text(pixels.shape))
    return pixels


def _pillow(image_format: str, data: Bytes, shape: Shape, out: Pixels | None) -> Pixels:
    from PIL import Image  # most datasets are JPEG and do without it

    expected = f"a {image_format} image of {_text(shape)}"
    try:
        with Image.open(io.BytesIO(data), formats=[image_format.upper()]) as picture:
            size = (picture.height, picture.width)
            # WebP has no gray: its colours are equal, and convert("L") rounds as
            # ``shardfeed.load`` does.
            pixels = np.asarray(picture.convert("RGB" if shape[2] == 3 else "L")) if size == shape[:2] else None
    except Exception as error:  # Pillow raises nearly anything on damaged data
        raise RecordProblem("image", f"{expected} that decodes", _refusal(error)) from None
    if pixels is None:
        raise RecordProblem("image", expected, f"{size[0]} x {size[1]}")
    return _placed(pixels.reshape(shape), out)


def _placed(pixels: Pixels, out: Pixels | None) -> Pixels:
    """``pixels``, in ``out`` if there is one."""
    if out is None:
        return pixels
    out[...] = pixels
    return out


def _refusal(error: Exception) -> str:
    """A decoder's error, the same in each run: without the address in memory that Pillow names."""
    text = str(error) if type(error) is ValueError else repr(error)
    return clip(re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", text))


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
