"""Bytes become pixels. Every failure of the decoder becomes one of the closed reasons.

Pillow's plugin classes are called directly, chosen by our own look at the signature.
``Image.open`` would try plugins one after another, turn their reasons into "cannot identify image
file", and warn about large images through the process-wide warnings filter.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    WebPImagePlugin,
)

from shardfeed.transforms.images.formats.jpeg_header import JpegHeader
from shardfeed.transforms.images.formats.keep import END_OF_IMAGE, START_OF_SCAN, with_plain_header
from shardfeed.transforms.images.formats.table import Kind
from shardfeed.transforms.images.formats.tiff import FirstPage, first_page_alone
from shardfeed.transforms.images.pixels.memory import image_of
from shardfeed.transforms.images.rejects import Reason, RejectError
from shardfeed.transforms.images.sniff import Header

Pixels = NDArray[np.uint8]

# What Pillow's decoders raise on foreign bytes: the list of its own fuzz tests, and the errors
# that its ImageFile takes for damage while opening (TypeError, LookupError, struct.error) and lets
# through while loading: a short chunk behind the pixels is an IndexError. Not MemoryError: sizes
# were checked, so it is the machine's.
_DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    OverflowError,
    NotImplementedError,
    EOFError,
    LookupError,
    TypeError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    RuntimeError,  # of libheif and libjxl
)
_UNSUPPORTED = ("cannot handle", "unsupported")
# Bytes a source pixel at the peak (decoder's canvases, pixels, conversions), rounded up from the
# largest seen resident over all modes: PNG 13 (alpha and a profile), GIF 7, BMP 5, WebP 18 (two
# canvases, alpha).
_PEAK_BYTES: dict[Kind, int] = {
    "JPEG": 5,
    "PNG": 14,
    "GIF": 10,
    "BMP": 10,
    "WEBP": 20,
    "HEIC": 20,
    "AVIF": 20,
    "TIFF": 20,
    "JXL": 32,
}


_PLUGINS: dict[Kind, Callable[[io.BytesIO], ImageFile.ImageFile]] = {
    "PNG": PngImagePlugin.PngImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "AVIF": AvifImagePlugin.AvifImageFile,
    "TIFF": FirstPage,
}


def scale_jpeg(header: JpegHeader, content: tuple[int, int]) -> int:
    """How much the decoder scales down: 1, 2, 4 or 8, never below ``content`` (width, height)."""
    room = min(header.size[0] // content[0], header.size[1] // content[1])
    return 8 if room >= 8 else 4 if room >= 4 else 2 if room >= 2 else 1


def jpeg_mode(header: JpegHeader, channels: str) -> str:
    """Pillow's mode of the decoded pixels. Gray is the luma plane, unless there is a profile."""
    if channels == "gray" and header.mode == "RGB" and not header.info.get("icc_profile"):
        return "L"
    return header.mode


def jpeg_peak(header: JpegHeader, factor: int, mode: str) -> int:
    """Bytes that loading takes: pixels, and of several scans the coefficients of the full size."""
    width, height = (-(-side // factor) for side in header.size)
    size = width * height * (1 if mode == "L" else _PEAK_BYTES["JPEG"])
    if mode == "CMYK":
        size *= 2
    if header.several_scans:
        size += 2 * Image.getmodebands(header.mode) * header.size[0] * header.size[1]
    return size


def peak(header: Header) -> int:
    """Bytes that opening and loading takes, at most."""
    return header.width * header.height * _PEAK_BYTES[header.kind]


def result_bytes(output: tuple[int, int]) -> int:
    """Bytes of the resized image, twice: it is turned or padded into a second one."""
    return 2 * 4 * output[0] * output[1]


def load_jpeg(data: bytes, header: JpegHeader, factor: int, mode: str) -> tuple[Image.Image, str | None, Pixels | None]:
    """Decodes a JPEG at 1 / ``factor`` of its size: the pixels, and the fix to count or None.

    Also the pixels as uint8[height, width, 4] or [height, width], in the memory of the image; None
    if Pillow decoded them. If pixels are lost, libjpeg makes them gray and only warns. Pillow hides
    the warnings; simplejpeg turns them into errors.

    Raises:
        RejectError: TRUNCATED (no end marker behind the last scan) or CORRUPT.
    """
    fix: str | None = None
    array: Pixels | None
    try:
        pixels, array = _jpeg_pixels(data, header, factor, mode)
    except ValueError as error:
        cut = data.find(END_OF_IMAGE, data.rfind(START_OF_SCAN)) < 0
        with _closed_reasons("JPEG", None, len(data), short=cut):
            pixels, fix, array = _refused_pixels(error, data, header, factor, mode)
    pixels.info = header.info
    return pixels, fix, array


class _PillowJpeg(JpegImagePlugin.JpegImageFile):
    """Pillow's JPEG reader without its search for a resolution, which warns about broken EXIF."""

    def _read_dpi_from_exif(self) -> None:
        pass


def _refused_pixels(
    error: ValueError, data: bytes, header: JpegHeader, factor: int, mode: str
) -> tuple[Image.Image, str, Pixels | None]:
    """Pixels of a file that simplejpeg refused, if none of them is lost, and the fix to count."""
    if "subsampling" in str(error):  # TurboJPEG knows the usual samplings only, libjpeg all
        image = _PillowJpeg(io.BytesIO(data))
        image.draft(mode, (image.width // factor, image.height // factor))
        image.load()
        return image, "jpeg_unchecked", None
    plain = with_plain_header(data)
    if plain is None:
        raise error
    pixels, array = _jpeg_pixels(plain, header, factor, mode)
    return pixels, "jpeg_warning", array


_COLOURS = {"RGB": ("RGBX", 4), "L": ("GRAY", 1), "CMYK": ("CMYK", 4)}  # mode -> simplejpeg's name, bytes per pixel


def _jpeg_pixels(data: bytes, header: JpegHeader, factor: int, mode: str) -> tuple[Image.Image, Pixels]:
    colours, channels = _COLOURS[mode]
    width, height = (-(-side // factor) for side in header.size)
    # Not a multiple of 16: libjpeg-turbo writes aligned rows past the caches, and resizing then
    # waits for each of them.
    memory = np.empty(height * width * channels + 8, np.uint8)[8:]
    array = simplejpeg.decode_jpeg(data, colours, min_height=height, min_width=width, buffer=memory)
    if array.shape[:2] != (height, width):
        raise ValueError(f"decodes to {array.shape[1]} x {array.shape[0]} pixels, not {width} x {height}")
    if mode == "CMYK":  # Pillow turns the inks of every CMYK JPEG over, and so do we
        pixels = Image.frombuffer(mode, (width, height), memory, "raw", "CMYK;I", 0, 1)
    else:
        pixels = image_of(memory, mode, (width, height))
    return pixels, memory.reshape((height, width, channels) if channels > 1 else (height, width))


def load_other(data: bytes, header: Header) -> tuple[Image.Image, str, bool]:
    """The first frame, Pillow's raw mode, which tells the bit depth, and whether there are more.

    The ``info`` of a picture that is upright already has no orientation.

    Raises:
        RejectError: TRUNCATED, CORRUPT or FORMAT.
    """
    if header.kind in ("HEIC", "JXL"):
        return _load_with_library(data, header)
    stream = io.BytesIO(first_page_alone(data) if header.kind == "TIFF" else data)
    webp = header.kind == "WEBP"  # its plugin reads the whole file at once, so the position tells nothing
    short = webp and len(data) < int.from_bytes(data[4:8], "little") + 8
    with _closed_reasons(header.kind, None if webp else stream, len(data), short):
        image = _PLUGINS[header.kind](stream)
        if image.size != (header.width, header.height):
            raise RejectError(Reason.CORRUPT, f"{header.kind} says {header.width} x {header.height} and {image.size}")
        args = image.tile[0].args if image.tile else ""
        raw_mode = args if isinstance(args, str) else ""
    with _closed_reasons(header.kind, None, len(data), short):
        if image.mode == "L":  # a GIF's gray frame: Pillow would put the palette of the other frames on it
            image.palette = None
        image.load()
        if header.kind in ("AVIF", "TIFF"):
            _keep_one_orientation(image, header.kind)
    if header.kind in ("PNG", "WEBP", "AVIF"):
        return image, raw_mode, getattr(image, "is_animated", False) is True
    return image, raw_mode, header.animated


def _load_with_library(data: bytes, header: Header) -> tuple[Image.Image, str, bool]:
    # The decoders of these two are loaded when the first such file comes: few builds have any.
    more = header.animated
    with _closed_reasons(header.kind, None, len(data)):
        if header.kind == "HEIC":
            from shardfeed.transforms.images.formats.heic import load_heic

            image, more = load_heic(data)
        else:
            from shardfeed.transforms.images.formats.jxl import load_jxl

            image = load_jxl(data, header.animated)
        if image.width * image.height > header.width * header.height:
            raise ValueError(f"says {header.width} x {header.height} and gives {image.width} x {image.height}")
    return image, "", more


def _keep_one_orientation(image: Image.Image, kind: Kind) -> None:
    """Drops an orientation that does not count.

    Pillow turns TIFF by itself. Of AVIF it puts the container's turn into the EXIF, and XMP repeats
    what the camera said.
    """
    image.info.pop("xmp", None)
    if kind == "TIFF":
        image.info.pop("exif", None)
        image.info["adobe"] = True  # inks are not turned over, see colour.py


@contextmanager
def _closed_reasons(kind: Kind, stream: io.BytesIO | None, size: int, short: bool = False) -> Iterator[None]:
    """Maps what the decoder raises. The position of ``stream`` shows whether the data ran out."""
    try:
        yield
    except _DECODER_ERRORS as error:
        text = _words(error)
        if any(word in text.lower() for word in _UNSUPPORTED):
            reason = Reason.FORMAT
        elif short or "truncated" in text.lower() or (stream is not None and stream.tell() >= size):
            reason = Reason.TRUNCATED
        else:
            reason = Reason.CORRUPT
        raise RejectError(reason, f"{kind}: {text}") from error


def _words(error: BaseException) -> str:
    """What Pillow says, where it says it for people."""
    cause = error.__cause__ if isinstance(error, SyntaxError) and error.__cause__ else error  # as ImageFile wraps them
    if isinstance(cause, (struct.error, LookupError, TypeError)):
        return "malformed header or chunk"
    text = str(error) or type(error).__name__
    return "no picture of a positive size" if text == "not identified by this driver" else text
