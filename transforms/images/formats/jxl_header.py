"""What a JPEG XL file says before its pixels: size, orientation, depth and colours.

pylibjxl gives the pixels as they are coded, and a profile only if the file holds one. Most files
code their colours by numbers, so these are read here. Limits are checked on the size that is read
here, too. Source: ISO/IEC 18181-1 (fields and their order), 18181-2 (boxes).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from shardfeed.transforms.images.formats.coded_colours import BT2020, P3, SRGB, Gamut, Point

_RATIOS = ((0, 1), (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_SIGNATURE = b"\0\0\0\x0cJXL \r\n\x87\n"
_HEADER_BYTES = 4096  # of a codestream; a header without a profile has less than 100

# How a number is stored: four alternatives, each (bits, offset). Two bits say which.
_SIDE = ((9, 1), (13, 1), (18, 1), (30, 1))
_ENUM = ((0, 0), (0, 1), (4, 2), (6, 18))
_INTEGER_BITS = ((0, 8), (0, 10), (0, 12), (6, 1))
_FLOAT_BITS = ((0, 32), (0, 16), (0, 24), (6, 1))
_EXTRA_CHANNELS = ((0, 0), (0, 1), (4, 2), (12, 1))
_SHIFT = ((0, 0), (0, 3), (0, 4), (3, 1))
_NAME = ((0, 0), (4, 0), (5, 16), (10, 48))
_FILTER = ((0, 1), (2, 0), (4, 3), (8, 19))
_COORDINATE = ((19, 0), (19, 524_288), (20, 1_048_576), (21, 2_097_152))
_ALPHA, _SPOT, _FILTERED = 0, 2, 5
_TICKS = ((0, 100), (0, 1000), (10, 1), (30, 1))
_PER_TICK = ((0, 1), (0, 1001), (8, 1), (10, 1))
_LOOPS = ((0, 0), (3, 0), (16, 0), (32, 0))
_PREVIEW_8 = ((0, 16), (0, 32), (5, 1), (9, 33))
_PREVIEW = ((6, 1), (8, 65), (10, 321), (12, 1345))
_WHITES: dict[int, Point] = {1: (0.3127, 0.3290), 10: (1 / 3, 1 / 3), 11: (0.314, 0.351)}
_GAMUTS = {1: SRGB, 9: BT2020, 11: P3}
_PQ, _HLG, _LINEAR, _DCI = 16, 18, 8, 17
_GRAY, _XYB = 1, 2


@dataclass(frozen=True, slots=True)
class JxlHeader:
    """Size in pixels after turning; ``gamut``, ``gamma``: of colours that are coded by numbers.

    ``gamut`` is None if the file's profile is that of the pixels, is gray, or has sRGB's colours;
    ``gamma`` None is sRGB's curve, or one that screens show as such.
    """

    width: int
    height: int
    turned: bool = False
    bits: int = 8
    animated: bool = False
    gamut: Gamut | None = None
    gamma: float | None = None
    hdr: bool = False


def read_jxl_header(data: bytes) -> JxlHeader:
    """The header of a bare codestream or of a container.

    Raises:
        IndexError: the data ends before the header does.
        ValueError: the header is malformed.
    """
    return _read(_Bits(_codestream(data)))


class _Bits:
    """Bits of a codestream, least significant first."""

    def __init__(self, data: bytes) -> None:
        self._bits, self._left = int.from_bytes(data, "little"), 8 * len(data)

    def take(self, count: int) -> int:
        if count > self._left:
            raise IndexError("the header ends early")
        value = self._bits & ((1 << count) - 1)
        self._bits >>= count
        self._left -= count
        return value

    def flag(self) -> bool:
        return bool(self.take(1))

    def number(self, alternatives: tuple[tuple[int, int], ...]) -> int:
        bits, offset = alternatives[self.take(2)]
        return offset + self.take(bits)


def _codestream(data: bytes) -> bytes:
    """The beginning of the codestream, out of the boxes that may hold it in pieces."""
    if not data.startswith(_SIGNATURE):
        return data[2 : 2 + _HEADER_BYTES]
    found, position = b"", len(_SIGNATURE)
    while len(found) < _HEADER_BYTES and position + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, position)
        start = position + 8
        if size == 1:
            if start + 8 > len(data):
                break
            (size,) = struct.unpack_from(">Q", data, start)
            start += 8
        end = len(data) if size == 0 else position + size
        if end < start:
            raise ValueError("a box of a wrong size")
        if name in (b"jxlc", b"jxlp"):  # pieces have a number before them
            found += data[start + 4 * (name == b"jxlp") : min(end, start + _HEADER_BYTES)]
        position = end
    if found[:2] != b"\xff\x0a"[: len(found)]:
        raise ValueError("no codestream in the container")
    return found[2:]


def _read(bits: _Bits) -> JxlHeader:
    width, height = _size(bits)
    if bits.flag():  # all that follows is as usual
        return JxlHeader(width, height)
    orientation, animated = 1, False
    if bits.flag():
        orientation = 1 + bits.take(3)
        if bits.flag():
            _size(bits)
        if bits.flag():
            _skip_preview(bits)
        animated = bits.flag()
        if animated:
            bits.number(_TICKS), bits.number(_PER_TICK), bits.number(_LOOPS), bits.flag()
    depth = _depth(bits)
    bits.flag()
    for _ in range(bits.number(_EXTRA_CHANNELS)):
        _skip_channel(bits)
    in_xyb = bits.flag()
    if orientation > 4:
        width, height = height, width
    gamut, gamma, hdr = _colours(bits, in_xyb)
    return JxlHeader(width, height, orientation > 1, depth, animated, gamut, gamma, hdr)


def _size(bits: _Bits) -> tuple[int, int]:
    def side() -> int:
        return 8 * (1 + bits.take(5)) if small else bits.number(_SIDE)

    small = bits.flag()
    height = side()
    ratio = bits.take(3)
    return (height * _RATIOS[ratio][0] // _RATIOS[ratio][1] if ratio else side()), height


def _skip_preview(bits: _Bits) -> None:
    kind = _PREVIEW_8 if bits.flag() else _PREVIEW
    bits.number(kind)
    if not bits.take(3):
        bits.number(kind)


def _depth(bits: _Bits) -> int:
    if not bits.flag():
        return bits.number(_INTEGER_BITS)
    depth = bits.number(_FLOAT_BITS)
    bits.take(4)
    return depth


def _skip_channel(bits: _Bits) -> None:
    if bits.flag():
        return
    kind = bits.number(_ENUM)
    _depth(bits)
    bits.number(_SHIFT)
    bits.take(8 * bits.number(_NAME))
    if kind == _ALPHA:
        bits.flag()
    elif kind == _SPOT:
        bits.take(64)
    elif kind == _FILTERED:
        bits.number(_FILTER)


def _colours(bits: _Bits, in_xyb: bool) -> tuple[Gamut | None, float | None, bool]:
    """(gamut, gamma, HDR) of the decoded pixels."""
    if bits.flag():
        return None, None, False
    has_profile, space = bits.flag(), bits.number(_ENUM)
    if has_profile and in_xyb:  # libjxl cannot apply a profile: it gives linear levels of sRGB's colours
        return SRGB, 1.0, False
    if has_profile or space == _XYB:
        return None, None, False
    white_code = bits.number(_ENUM)
    white = _point(bits) if white_code == 2 else _WHITES.get(white_code, _WHITES[1])
    gamut: Gamut | None = None
    if space != _GRAY:
        code = bits.number(_ENUM)
        primaries = (_point(bits), _point(bits), _point(bits)) if code == 2 else _GAMUTS.get(code, SRGB)[1:]
        gamut = (white, *primaries)
    gamma, transfer = None, 0
    if bits.flag():
        gamma = 10_000_000 / max(bits.take(24), 1)
    else:
        transfer = bits.number(_ENUM)
        gamma = {_LINEAR: 1.0, _DCI: 2.6}.get(transfer)
    if transfer in (_PQ, _HLG):
        return None, None, True
    return (None if gamut == SRGB and gamma is None else gamut), gamma, False


def _point(bits: _Bits) -> Point:
    """Millionths, signed: even numbers are positive ones."""
    x, y = (bits.number(_COORDINATE) for _ in range(2))
    return _signed(x) / 1_000_000, _signed(y) / 1_000_000


def _signed(value: int) -> int:
    return -(value + 1) // 2 if value & 1 else value // 2
