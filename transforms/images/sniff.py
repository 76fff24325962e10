"""What a file is, by its first bytes, and how large it says its picture is, before Pillow opens it.

The size is read here, because several of Pillow's plugins allocate pixels while they *open* a
file: WebP two canvases, APNG and GIF a disposal frame. A limit checked after ``open`` is checked
too late. Nor does any global of Pillow's (``MAX_IMAGE_PIXELS``, the warnings filter) have to be
touched. ``jpeg_header.py`` reads the size of a JPEG.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from shardfeed.transforms.images.formats.coded_colours import is_hdr, profile_of, profile_with
from shardfeed.transforms.images.formats.isobmff import brand_of, read_picture
from shardfeed.transforms.images.formats.jxl_header import read_jxl_header
from shardfeed.transforms.images.formats.table import (
    DEFAULT_FORMATS,
    INPUT_FORMATS,
    Kind,
    how_to_read,
    shown_names,
)
from shardfeed.transforms.images.formats.tiff import CutError, UnsupportedError, read_page
from shardfeed.transforms.images.rejects import Reason, RejectError

_FOREIGN: dict[str, tuple[tuple[int, bytes], ...]] = {
    "a raw file of a camera": ((0, b"IIRO"), (0, b"IIRS"), (0, b"IIU\0"), (0, b"FUJIFILM"), (4, b"ftypcrx ")),
    "a video, or HEIF of another coding": ((4, b"ftyp"),),
    "JPEG 2000": ((4, b"jP  "), (0, b"\xff\x4f\xff\x51")),
    "an icon": ((0, b"\0\0\1\0"),),
    "a Photoshop file": ((0, b"8BPS"),),
    "PDF": ((0, b"%PDF"),),
    "PostScript": ((0, b"%!PS"),),
    "a ZIP archive": ((0, b"PK\3\4"),),
    "gzip": ((0, b"\x1f\x8b"),),
    "a Git LFS pointer, not its file": ((0, b"version https://git-lfs"),),
    "a text, as of an error page": ((0, b"<"), (0, b"{"), (0, b"\xef\xbb\xbf<")),
}
_GIF_BLOCK = re.compile(rb"[!,;]")  # extension, frame, end
_GIF_JUNK = 1 << 16  # bytes between two blocks; the decoder walks over them one by one
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_JXL = (b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n")


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says before its pixels.

    ``width`` and ``height`` in stored pixels; of JPEG XL and TIFF, whose decoders turn, upright.
    ``animated``: known here for GIF, TIFF and JPEG XL. ``fixes``: those that the header shows.
    ``profile``: of colours, if it is known here.
    """

    kind: Kind
    width: int
    height: int
    animated: bool = False
    fixes: tuple[str, ...] = ()
    profile: bytes | None = None


def sniff(data: bytes, formats: Collection[str] = DEFAULT_FORMATS) -> Kind:
    """The format of ``data`` by its signature; ``formats``: names of those that are read.

    Raises:
        RejectError: FORMAT.
    """
    kind = _kind_of(data, formats)
    if kind.lower() not in formats:
        row = INPUT_FORMATS[kind.lower()]
        shown = "TIFF or a camera's raw file" if kind == "TIFF" else row.shown
        raise RejectError(Reason.FORMAT, f"looks like {shown}; {how_to_read(row, formats)}")
    return kind


def _kind_of(data: bytes, formats: Collection[str]) -> Kind:
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if data.startswith(b"BM") and len(data) > 14:
        return "BMP"
    brand = brand_of(data)
    if brand == "HEIC" or brand == "AVIF":
        return brand
    if data.startswith(_TIFF):
        return "TIFF"
    if data.startswith(_JXL):
        return "JXL"
    if any(magic.startswith(data) for magic in (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"GIF87a", b"BM")):
        raise RejectError(Reason.TRUNCATED, f"only {len(data)} bytes")
    raise RejectError(Reason.FORMAT, f"{_foreign(data)}; {shown_names(formats)} are read")


def _foreign(data: bytes) -> str:
    """A name for what was found, so that the remedy (convert it, fix the download) is plain."""
    for name, magics in _FOREIGN.items():
        if any(data.startswith(magic, offset) for offset, magic in magics):
            return f"looks like {name}"
    return f"unknown signature {data[:12].hex(' ')}"


def read_header(data: bytes, kind: Kind) -> Header:
    """The header of any other kind than JPEG.

    Raises:
        RejectError: TRUNCATED or CORRUPT, or FORMAT for a layout that is not decoded.
    """
    reader = _READERS[kind]
    try:
        header = reader(data)
    except (struct.error, IndexError, OverflowError):  # the last one of an offset above 2^63
        raise RejectError(Reason.TRUNCATED, f"{kind} header ends after {len(data)} bytes") from None
    except CutError as error:
        raise RejectError(Reason.TRUNCATED, f"{kind}: {error}") from None
    except UnsupportedError as error:
        raise RejectError(Reason.FORMAT, f"{kind}: {error}") from None
    except ValueError as error:
        raise RejectError(Reason.CORRUPT, f"{kind}: {error}") from None
    if header.width <= 0 or header.height <= 0:
        raise RejectError(Reason.CORRUPT, f"{kind} header says {header.width} x {header.height} pixels")
    return header


def _png(data: bytes) -> Header:
    width, height, position = 0, 0, 8
    while True:
        length, name = struct.unpack_from(">I4s", data, position)
        if name == b"IHDR":
            if position != 8:  # a second one would change the size after it was checked
                raise RejectError(Reason.CORRUPT, "PNG header twice")
            width, height = struct.unpack_from(">II", data, 16)
        elif position == 8:
            raise RejectError(Reason.CORRUPT, "PNG does not start with its header")
        elif name in (b"IDAT", b"IEND", b"fdAT"):
            return Header("PNG", width, height)
        position += 12 + length


def _webp(data: bytes) -> Header:
    chunk = data[12:16]
    if chunk == b"VP8X":
        low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", data, 24)
        return Header("WEBP", low_width + (high_width << 16) + 1, low_height + (high_height << 16) + 1)
    if chunk == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Header("WEBP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if chunk == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("WEBP", width & 0x3FFF, height & 0x3FFF)
    raise RejectError(Reason.CORRUPT, f"WebP without a picture: first chunk {chunk.hex(' ')}")


def _gif(data: bytes) -> Header:
    """The screen, enlarged to the first frame as Pillow does; animated if a second frame begins."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    position = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    position = _gif_frame(data, position)
    if position < 0:
        raise RejectError(Reason.CORRUPT, "GIF without a frame")
    left, top, frame_width, frame_height, flags = struct.unpack_from("<HHHHB", data, position + 1)
    width, height = max(width, left + frame_width), max(height, top + frame_height)
    position += 11 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    try:
        animated = _gif_frame(data, _gif_skip(data, position)) >= 0
    except (IndexError, RejectError):  # what follows is damaged; decoding will say whether the first frame is whole
        animated = False
    return Header("GIF", width, height, animated)


def _gif_frame(data: bytes, position: int) -> int:
    """Position of the next image descriptor, or -1 at the end of the stream."""
    while match := _GIF_BLOCK.search(data, position, position + _GIF_JUNK):
        position = match.start()
        if match[0] != b"!":
            return position if match[0] == b"," else -1
        position = _gif_skip(data, position + 2)
    if position + _GIF_JUNK < len(data):
        raise RejectError(Reason.CORRUPT, f"GIF with more than {_GIF_JUNK} bytes between two blocks")
    raise IndexError("end of data")


def _gif_skip(data: bytes, position: int) -> int:
    """Position behind a chain of sub-blocks."""
    while length := data[position]:
        position += 1 + length
    return position + 1


def _bmp(data: bytes) -> Header:
    (header_size,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if header_size == 12 else "<Ii", data, 18)
    return Header("BMP", width, abs(height))


def _boxed(kind: Kind, data: bytes) -> Header:
    """The main picture of a HEIC or AVIF file."""
    found = read_picture(data)
    fixes = ("exif_orientation",) * found.turned + ("sixteen_bit_scaled",) * (found.bits > 8)
    fixes += ("hdr_as_sdr",) * is_hdr(found.colours)
    return Header(kind, found.width, found.height, False, fixes, found.profile or profile_of(found.colours))


def _tiff(data: bytes) -> Header:
    page = read_page(data)
    size = (page.height, page.width) if 5 <= page.orientation <= 8 else (page.width, page.height)
    fixes = ("exif_orientation",) * (2 <= page.orientation <= 8) + ("sixteen_bit_scaled",) * (page.bits > 8)
    return Header("TIFF", *size, page.more, fixes)


def _jxl(data: bytes) -> Header:
    found = read_jxl_header(data)
    fixes = ("exif_orientation",) * found.turned + ("sixteen_bit_scaled",) * (found.bits > 8)
    fixes += ("hdr_as_sdr",) * found.hdr
    try:
        profile = profile_with(found.gamut, found.gamma) if found.gamut else None
    except (ArithmeticError, struct.error):
        raise ValueError("its primary colours are none") from None
    return Header("JXL", found.width, found.height, found.animated, fixes, profile)


_READERS: Mapping[Kind, Callable[[bytes], Header]] = {
    "PNG": _png,
    "WEBP": _webp,
    "GIF": _gif,
    "BMP": _bmp,
    "HEIC": functools.partial(_boxed, "HEIC"),
    "AVIF": functools.partial(_boxed, "AVIF"),
    "TIFF": _tiff,
    "JXL": _jxl,
}
