"""HEIC by pi-heif: libheif and libde265, which only decode, under the LGPL.

The wheel with an encoder (pillow-heif) holds x265, which is under the GPL. pi-heif's extension
module is called in place of its Python classes: these also read what lies beside the picture, and
one wrong byte in the name of a metadata item ends the process there (1.4.0).
"""

from __future__ import annotations

import re

import _pi_heif
from PIL import Image

from shardfeed.transforms.images.formats.isobmff import coded_pieces

# What no unit of HEVC holds: an encoder puts a byte between such bytes (ITU-T H.265, 7.4.2).
_NEVER = re.compile(rb"\0\0[\0\1\2]")
_MODES = ("L", "RGB", "RGBA", "RGBa")


def load_heic(data: bytes) -> tuple[Image.Image, bool]:
    """The main picture, upright, of 8 bits, without ``info``; and whether the file holds others.

    The container's turns are applied. By the standard the EXIF orientation is not applied to them
    again.

    Raises:
        ValueError, RuntimeError, OSError, EOFError, SyntaxError: damage, or a layout that is not
            decoded. Of gray with more than 8 bits pi-heif (1.4.0) writes as much as the header
            says, so a header that lies would overwrite memory.
    """
    _check_coded(data)
    one_thread, to_8_bits, as_bgr, packed, to_16_bits, any_decoder, unlimited = 1, True, False, False, True, "", False
    found = _pi_heif.load_file(data, one_thread, to_8_bits, as_bgr, packed, to_16_bits, any_decoder, unlimited)
    pictures = [each for each in found if each is not None]
    main = next((each for each in pictures if each.primary), None)
    if main is None:
        raise ValueError("no main picture")
    _, mode = main.size_mode
    if mode not in _MODES:
        raise ValueError(f"unsupported pixels ({mode})")
    pixels = main.data  # decodes; only now the size is the one that was decoded
    size, _ = main.size_mode
    return Image.frombytes(mode, size, pixels, "raw", mode, main.stride), len(found) > 1


def _check_coded(data: bytes) -> None:
    """Refuses coded data with a hole: libde265 fills it with what is near and says nothing.

    Holes of a download that did not end are zeros. Units are preceded by their size in four bytes.
    """
    for start, end in coded_pieces(data):
        while start < end:
            size = int.from_bytes(data[start : start + 4], "big")
            if not 2 <= size <= end - start - 4:
                raise ValueError("a unit of the coded data has a wrong size")
            if _NEVER.search(data, start + 4, start + 4 + size):
                raise ValueError("zeros in the coded data")
            start += 4 + size
