"""Colours that a file says by code numbers (ITU-T H.273, "nclx") in place of a colour profile.

HEIC, AVIF and JPEG XL do so. Decoders give the pixels as they are, so pictures of a wide gamut
would look pale. ``profile_of`` gives a colour profile for such numbers, and the usual path applies
it. HDR transfer curves (PQ, HLG) are not mapped to SDR: there is no one right way, and no phone
writes still pictures so (they write SDR pictures with a gain map).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Point = tuple[float, float]
"""Chromaticity: x and y of CIE 1931."""
Gamut = tuple[Point, Point, Point, Point]
"""White, red, green, blue."""

_D65 = (0.3127, 0.3290)
SRGB: Gamut = (_D65, (0.640, 0.330), (0.300, 0.600), (0.150, 0.060))
P3: Gamut = (_D65, (0.680, 0.320), (0.265, 0.690), (0.150, 0.060))
BT2020: Gamut = (_D65, (0.708, 0.292), (0.170, 0.797), (0.131, 0.046))
_GAMUTS = {12: P3, 9: BT2020}  # by H.273's number of the primaries
_BRADFORD = np.array(((0.8951, 0.2664, -0.1614), (-0.7502, 1.7135, 0.0367), (0.0389, -0.0685, 1.0296)))
_HDR = frozenset({16, 18})  # PQ, HLG
_D50 = (0.9642, 1.0, 0.8249)
_SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)


def is_hdr(colours: tuple[int, int] | None) -> bool:
    """Whether the levels are those of HDR."""
    return colours is not None and colours[1] in _HDR


def profile_of(colours: tuple[int, int] | None) -> bytes | None:
    """A colour profile for (primaries, transfer); None if they are sRGB's or HDR's.

    All transfers of SDR are taken as sRGB's, as screens show them.
    """
    if colours is None or is_hdr(colours) or colours[0] not in _GAMUTS:
        return None
    return profile_with(_GAMUTS[colours[0]])


@lru_cache(maxsize=16)
def profile_with(gamut: Gamut, gamma: float | None = None) -> bytes:
    """A colour profile (ICC, version 4) of a gamut, and a gamma; None is sRGB's curve."""
    if gamma is None:
        curve = b"para" + bytes(4) + struct.pack(">HH", 3, 0) + b"".join(map(_fixed, _SRGB_CURVE))
    else:
        curve = b"para" + bytes(4) + struct.pack(">HH", 0, 0) + _fixed(gamma)
    red, green, blue = _colorants(gamut).T
    tags = {
        b"wtpt": _xyz(_D50),
        b"rXYZ": _xyz(red),
        b"gXYZ": _xyz(green),
        b"bXYZ": _xyz(blue),
        b"rTRC": curve,
        b"gTRC": curve,
        b"bTRC": curve,
    }
    directory, content = struct.pack(">I", len(tags)), b""
    begin = 128 + 4 + 12 * len(tags)
    for name, value in tags.items():
        directory += name + struct.pack(">II", begin + len(content), len(value))
        content += value
    size = begin + len(content)
    header = struct.pack(">I4sI4s4s4s", size, bytes(4), 0x04000000, b"mntr", b"RGB ", b"XYZ ")
    header += struct.pack(">6H4s", 2026, 1, 1, 0, 0, 0, b"acsp").ljust(44, b"\0") + b"".join(map(_fixed, _D50))
    return header.ljust(128, b"\0") + directory + content


def _colorants(gamut: Gamut) -> NDArray[np.float64]:
    """XYZ of red, green, blue as columns, adapted to D50 by Bradford's matrix (ICC.1, annex E)."""
    white, *primaries = (np.array((x / y, 1.0, (1 - x - y) / y)) for x, y in gamut)
    columns = np.stack(primaries, axis=1)
    columns = columns * np.linalg.solve(columns, white)
    cones = np.diag((_BRADFORD @ _D50) / (_BRADFORD @ white))
    return np.linalg.solve(_BRADFORD, cones @ _BRADFORD) @ columns


def _fixed(value: float) -> bytes:
    return struct.pack(">i", round(float(value) * 65536))


def _xyz(value: Iterable[float]) -> bytes:
    return b"XYZ " + bytes(4) + b"".join(map(_fixed, value))
