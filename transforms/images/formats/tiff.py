"""The first page of a TIFF file: its size, and whether it can be decoded whole, from its tags.

libtiff is lenient: tiles that are not there come out black, and the JPEG decoder in it fills gaps
with gray. So all pieces of the page are looked at here: each has to lie in the file, and each JPEG
piece has to be sound. What is not on this page's list of layouts is refused before Pillow sees it,
and no memory is reserved for a tile larger than the limits. Source: TIFF 6.0, BigTIFF.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from dataclasses import dataclass
from functools import lru_cache

import simplejpeg
from PIL import Image, TiffImagePlugin

_CODES = {1: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}  # of integers
_REDUCED, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 254, 256, 257, 258, 259, 262
_OFFSETS, _ORIENTATION, _SAMPLES, _ROWS, _COUNTS, _PLANES = 273, 274, 277, 278, 279, 284
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _SAMPLE_FORMAT = 322, 323, 324, 325, 339
_JPEG_TABLES, _PROFILE = 347, 34675
_FILL_ORDER, _FAX_3, _FAX_4, _PREDICTOR, _PALETTE, _ALPHA, _CHROMA = 266, 292, 293, 317, 320, 338, 530
_RAW_FILES = {50706, 33421}  # DNGVersion, CFARepeatPatternDim
_COMPRESSIONS = frozenset({1, 2, 3, 4, 5, 7, 8, 32773, 32946})  # none, CCITT, LZW, JPEG, Deflate, PackBits
_JPEG = 7
_PHOTOMETRICS = {0: "gray", 1: "gray", 2: "RGB", 3: "palette", 5: "CMYK", 6: "YCbCr"}
_MOST_TAGS = 4096
_MOST_TILE = 4096 * 4096  # pixels, if the page is smaller
_ONCE = (_REDUCED, _WIDTH, _HEIGHT, _COMPRESSION, _PHOTOMETRIC, _ORIENTATION, _SAMPLES, _ROWS, _PLANES)
_SINGLE = frozenset({*_ONCE, _TILE_WIDTH, _TILE_HEIGHT, _FILL_ORDER, _FAX_3, _FAX_4, _PREDICTOR})
_NAMED = frozenset({_REDUCED, *_RAW_FILES})
_KEPT = (_SINGLE - {_REDUCED}) | {
    _BITS, _OFFSETS, _COUNTS, _TILE_OFFSETS, _TILE_COUNTS, _SAMPLE_FORMAT, _JPEG_TABLES, _PROFILE, _PALETTE, _ALPHA, _CHROMA,
}  # fmt: skip


class UnsupportedError(ValueError):
    """A layout that is not decoded."""


class CutError(ValueError):
    """A piece of the page lies behind the end of the file."""


@dataclass(frozen=True, slots=True)
class TiffPage:
    """The first page.

    ``width``, ``height``: pixels as stored. ``piece``: (width, height) of a tile or strip.
    ``bits``: per sample. ``orientation``: 1-8 as in EXIF. ``more``: other pages follow.
    """

    width: int
    height: int
    piece: tuple[int, int]
    bits: int
    orientation: int
    more: bool


class FirstPage(TiffImagePlugin.TiffImageFile):
    """Pillow's reader without its own limit of size, which warns through the process's filter."""

    def load_prepare(self) -> None:
        """Allocates the pixels; their number was checked."""
        if self._im is None:
            self.im = Image.core.new(self.mode, self._tile_size)  # type: ignore[attr-defined]
        super().load_prepare()


def read_page(data: bytes) -> TiffPage:
    """The first page of a TIFF or BigTIFF file.

    Raises:
        UnsupportedError: a layout that is not decoded, or a raw file of a camera.
        CutError: a piece lies behind the end of the file.
        ValueError: the tags contradict each other.
        struct.error: the data ends before the tags do.
    """
    tags = _read_tags(data)
    one = tags.one
    if data[8:10] == b"CR" or tags.entries.keys() & _RAW_FILES or one(_REDUCED, 0) & 1:
        raise UnsupportedError("a raw file of a camera, whose first page is a preview")
    width, height, samples = one(_WIDTH, 0), one(_HEIGHT, 0), one(_SAMPLES, 1)
    compression, photometric = one(_COMPRESSION, 1), one(_PHOTOMETRIC, -1)
    bits = tags.values.get(_BITS, (1,))
    if width <= 0 or height <= 0:
        raise ValueError(f"no picture of a positive size: {width} x {height}")
    if compression not in _COMPRESSIONS:
        raise UnsupportedError(f"cannot handle compression {compression}")
    if photometric not in _PHOTOMETRICS or (photometric == 6 and compression != _JPEG):
        raise UnsupportedError(f"cannot handle colours of kind {photometric}")
    if set(tags.values.get(_SAMPLE_FORMAT, (1,))) - {1, 4}:
        raise UnsupportedError("cannot handle samples that are signed or floating point")
    if len(set(bits)) > 1 or bits[0] not in (1, 2, 4, 8, 16) or samples > 5:
        raise UnsupportedError(f"cannot handle {samples} samples of {bits[0]} bits")
    if bits[0] == 16 and photometric == 0:
        raise UnsupportedError("cannot handle 16 bits where 0 is white")
    piece = (one(_TILE_WIDTH, 0), one(_TILE_HEIGHT, 0))
    if _TILE_OFFSETS not in tags.values:
        piece = width, min(one(_ROWS, height), height)
    page = TiffPage(width, height, piece, bits[0], one(_ORIENTATION, 1), tags.more)
    _check_pieces(data, tags, page)
    return page


def _check_pieces(data: bytes, tags: _Tags, page: TiffPage) -> None:
    tiled = _TILE_OFFSETS in tags.values
    offsets = tags.values.get(_TILE_OFFSETS if tiled else _OFFSETS, ())
    counts = tags.values.get(_TILE_COUNTS if tiled else _COUNTS, ())
    across, down = page.piece
    if across <= 0 or down <= 0 or across * down > max(_MOST_TILE, 4 * page.width * page.height):
        raise ValueError(f"pieces of {across} x {down} pixels")
    samples, planes = tags.one(_SAMPLES, 1), 1
    if tags.one(_PLANES, 1) == 2:
        samples, planes = 1, samples
    columns, rows = -(-page.width // across), -(-page.height // down)
    if not len(offsets) == len(counts) == planes * columns * rows:
        raise ValueError(f"{len(offsets)} pieces and {len(counts)} sizes for {planes * columns * rows} places")
    for offset, count in zip(offsets, counts, strict=True):
        if count <= 0:
            raise ValueError("a piece without data")
        if offset + count > len(data):
            raise CutError(f"a piece ends at byte {offset + count} of {len(data)}")
    compression = tags.one(_COMPRESSION, 1)
    if compression == 1:
        row_bytes = -(-across * page.bits * samples // 8)
        needed = planes * columns * row_bytes * (rows * down if tiled else page.height)
        if sum(counts) < needed:
            raise ValueError(f"{sum(counts)} bytes for {needed} of pixels")
    if compression == _JPEG:
        tables = bytes(tags.values.get(_JPEG_TABLES, ()))
        for offset, count in zip(offsets, counts, strict=True):
            _check_jpeg(tables, data[offset : offset + count], page)


def _check_jpeg(tables: bytes, piece: bytes, page: TiffPage) -> None:
    """Decodes a piece with the decoder that refuses damage; libtiff's fills it with gray."""
    whole = tables[:-2] + piece[2:] if len(tables) > 4 else piece
    height, width, *_ = simplejpeg.decode_jpeg_header(whole)
    if width > max(page.piece[0], 1) + 64 or height > max(page.piece[1], 1) + 64:
        raise ValueError(f"a piece of {width} x {height} pixels in place of {page.piece[0]} x {page.piece[1]}")
    simplejpeg.decode_jpeg(whole, "GRAY")


@dataclass(frozen=True, slots=True)
class _Tags:
    """Integer tags of the first page, by number, and their entries as they are in the file."""

    values: dict[int, tuple[int, ...]]
    entries: dict[int, bytes]
    order: str
    big: bool
    more: bool

    def one(self, tag: int, default: int) -> int:
        """The value of a tag that has one."""
        values = self.values.get(tag)
        return values[0] if values else default


@lru_cache(maxsize=1)
def _silence_libtiff() -> None:
    """Ends libtiff's own lines on standard error: each damaged file, which is a reject, gives one.

    Pillow offers no way. A library that is not found stays loud.
    """
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for path in {line.split(maxsplit=5)[5].strip() for line in maps if "/libtiff" in line}:
            library = ctypes.CDLL(path)  # the one that is loaded already
            library.TIFFSetErrorHandler(None)
            library.TIFFSetWarningHandler(None)


def first_page_alone(data: bytes) -> bytes:
    """The file with a new directory, of the first page, in which are only tags of ``_KEPT``.

    Pillow warns through the process's filter of damage in tags that no picture needs.
    """
    _silence_libtiff()
    tags = _read_tags(data)
    start = len(data) + -len(data) % 8
    kept = [entry for tag, entry in sorted(tags.entries.items()) if tag in _KEPT]
    head = (
        data[:8] + struct.pack(tags.order + "Q", start) if tags.big else data[:4] + struct.pack(tags.order + "I", start)
    )
    directory = struct.pack(tags.order + ("Q" if tags.big else "H"), len(kept)) + b"".join(kept)
    return b"".join((head, data[len(head) :], bytes(start - len(data)), directory, bytes(8)))


def _read_tags(data: bytes) -> _Tags:
    order = "<" if data[:2] == b"II" else ">"
    (version,) = struct.unpack_from(order + "H", data, 2)
    big = version == 43
    (start,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
    (count,) = struct.unpack_from(order + ("Q" if big else "H"), data, start)
    start += 8 if big else 2
    size, room = (20, 8) if big else (12, 4)
    if count > _MOST_TAGS:
        raise ValueError(f"{count} tags")
    values: dict[int, tuple[int, ...]] = {}
    entries: dict[int, bytes] = {}
    for position in range(start, start + count * size, size):
        tag, kind, length = struct.unpack_from(order + ("HHQ" if big else "HHI"), data, position)
        if tag not in _KEPT | _NAMED or tag in entries:
            continue
        if kind not in _CODES or length < 1 or (length > 1 and tag in _SINGLE):
            raise ValueError(f"tag {tag} of kind {kind} with {length} values")
        place, needed = position + size - room, length * struct.calcsize("=" + _CODES[kind])
        if needed > room:
            (place,) = struct.unpack_from(order + ("Q" if big else "I"), data, place)
        if place + needed > len(data):
            raise CutError(f"tag {tag} ends behind the file")
        entries[tag] = data[position : position + size]
        if tag != _PROFILE:
            values[tag] = struct.unpack_from(f"{order}{length}{_CODES[kind]}", data, place)
    (following,) = struct.unpack_from(order + ("Q" if big else "I"), data, start + count * size)
    return _Tags(values, entries, order, big, following != 0)
