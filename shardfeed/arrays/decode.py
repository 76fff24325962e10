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
from collections.abc import Callable
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from shardfeed.arrays.parsing import Bytes
from shardfeed.errors import UsageError, clip
from shardfeed.format.manifest import ImageInfo
from shardfeed.verification.record import decoder_text

Pixels = NDArray[np.uint8]
ImageDecoder = Callable[[Bytes, Pixels], None]
"""Decodes a stored image into an array of [height, width, channels]. Raises ImageProblem."""


class ImageProblem(ValueError):
    """An image is not what the manifest describes: ``expected`` one thing, ``found`` another."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"image: expected {expected}, found {found}")
        self.expected, self.found = expected, found


def image_decoder(image: ImageInfo) -> ImageDecoder:
    """Decoder of ``image``, which must have one size. Safe to share between threads.

    Raises:
        UsageError: the library for the format is not installed.
    """
    if image.format == "raw":
        return _raw
    if image.format == "jpeg":
        return _jpeg
    return functools.partial(_pillow, _pillow_image(image.format), image.format)


def _raw(data: Bytes, out: Pixels) -> None:
    if len(data) != out.size:
        raise ImageProblem(f"{_shape(out.shape)} bytes of pixels", f"{len(data)} bytes")
    out[...] = np.frombuffer(data, np.uint8).reshape(out.shape)


def _jpeg(data: Bytes, out: Pixels) -> None:
    expected = f"a jpeg image of {_shape(out.shape)}"
    try:
        # Larger than the buffer is an error before anything is written; smaller shows in the shape
        # that comes back.
        pixels = simplejpeg.decode_jpeg(data, "RGB" if out.shape[2] == 3 else "GRAY", buffer=out)
    except ValueError as error:
        raise ImageProblem(f"{expected} that decodes", clip(decoder_text(error))) from None
    if pixels.shape != out.shape:
        raise ImageProblem(expected, _shape(pixels.shape))


def _pillow(pillow: Any, image_format: str, data: Bytes, out: Pixels) -> None:
    expected = f"a {image_format} image of {_shape(out.shape)}"
    try:
        with pillow.open(io.BytesIO(data), formats=[image_format.upper()]) as picture:
            size = (picture.height, picture.width)
            # WebP has no gray: its colours are equal, and convert("L") rounds as
            # ``shardfeed.load`` does.
            pixels = np.asarray(picture.convert("RGB" if out.shape[2] == 3 else "L")) if size == out.shape[:2] else None
    except Exception as error:  # Pillow raises nearly anything on damaged data
        raise ImageProblem(f"{expected} that decodes", clip(decoder_text(error))) from None
    if pixels is None:
        raise ImageProblem(expected, f"{size[0]} x {size[1]}")
    out[...] = pixels.reshape(out.shape)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _pillow_image(image_format: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(
            f"{image_format} images are decoded with Pillow, which is not installed. Install it with: pip install Pillow"
        ) from None
    return Image
