"""The header of a HEIC or AVIF file: size, depth and colours of its main picture, from its boxes.

It is read here, before a library opens the file, so that limits are checked on numbers of our own,
and because Pillow does not tell depth and coded colours. Only the boxes ``ftyp`` and ``meta`` are
read. Source: ISO/IEC 14496-12 and 23008-12.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_HEIC = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"})
_AVIF = frozenset({b"avif", b"avis"})
_MOST_BOXES = 10_000  # of one level; a picture of 512 tiles has two boxes per tile at most


@dataclass(frozen=True, slots=True)
class HeifPicture:
    """The main picture of a file.

    ``width``, ``height``: pixels before it is turned, at most: a clean aperture may cut them.
    ``turned``: the container turns or mirrors it. ``bits``: per sample. ``colours``: (primaries,
    transfer) as coded by ITU-T H.273; None if the file has a colour profile or says nothing.
    ``profile``: the colour profile (ICC).
    """

    width: int
    height: int
    turned: bool = False
    bits: int = 8
    colours: tuple[int, int] | None = None
    profile: bytes | None = None


class NoPictureError(ValueError):
    """The boxes name no main picture, or no size of it."""


def brand_of(data: bytes) -> Literal["HEIC", "AVIF", "ISO"] | None:
    """``HEIC`` or ``AVIF`` by the brands of the file, ``ISO`` for any other such file, or None.

    The first brand decides. General ones (``mif1``) leave it to the compatible ones behind it.
    """
    if data[4:8] != b"ftyp":
        return None
    end = min(int.from_bytes(data[:4], "big"), 1024)
    brands = [data[8:12], *(data[at : at + 4] for at in range(16, end, 4))]
    for brand in brands:
        if brand in _AVIF:
            return "AVIF"
        if brand in _HEIC:
            return "HEIC"
    return "ISO"


def read_picture(data: bytes) -> HeifPicture:
    """The main picture of a file with brands of HEIC or AVIF.

    Raises:
        NoPictureError: there is none, or no size of it.
        struct.error, IndexError: the data ends before the boxes do.
    """
    boxes = _meta(data)
    if b"pitm" not in boxes or b"iprp" not in boxes:
        raise NoPictureError("no main picture")
    start = boxes[b"pitm"][0]
    (main,) = struct.unpack_from(">H" if data[start] == 0 else ">I", data, start + 4)
    inner = dict(_boxes(data, *boxes[b"iprp"]))
    if b"ipco" not in inner or b"ipma" not in inner:
        raise NoPictureError("no properties of a picture")
    properties = list(_boxes(data, *inner[b"ipco"]))
    width = height = 0
    turned, bits = False, 8
    profile: bytes | None = None
    colours: tuple[int, int] | None = None
    for number in _properties_of(data, inner[b"ipma"][0], main):
        if not 0 < number <= len(properties):
            continue
        name, (start, end) = properties[number - 1]
        if name == b"ispe":
            width, height = struct.unpack_from(">II", data, start + 4)
        elif name == b"irot":
            turned |= data[start] & 3 != 0
        elif name == b"imir":
            turned = True
        elif name == b"pixi" and end > start + 5:
            bits = data[start + 5]
        elif name == b"colr" and data[start : start + 4] == b"nclx":
            colours = struct.unpack_from(">HH", data, start + 4)
        elif name == b"colr" and data[start : start + 4] in (b"prof", b"rICC"):
            profile = data[start + 4 : end]
    if not (width and height):
        raise NoPictureError("no size of the main picture")
    return HeifPicture(width, height, turned, bits, None if profile else colours, profile)


def coded_pieces(data: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of the coded data of each item that is an HEVC picture.

    Raises:
        NoPictureError, struct.error, IndexError: as ``read_picture``, or a piece lies behind the
        end.
    """
    boxes = _meta(data)
    if b"iinf" not in boxes or b"iloc" not in boxes:
        raise NoPictureError("no items")
    start, end = boxes[b"iinf"]
    items = set()
    for _, (at, _) in _boxes(data, start + (6 if data[start] == 0 else 8), end):
        wide = data[at] == 3
        number, _, found = struct.unpack_from(">IH4s" if wide else ">HH4s", data, at + 4)
        if found == b"hvc1":
            items.add(number)
    for number, at, size in _extents(data, boxes[b"iloc"][0]):
        if number in items:
            if at + size > len(data):
                raise IndexError("coded data behind the end")
            yield at, at + size


def _extents(data: bytes, start: int) -> Iterator[tuple[int, int, int]]:
    """(item, position, size) of each piece that is a part of the file by itself (``iloc``)."""
    version = data[start]
    of_offset, of_length, of_base, of_index = data[start + 4] >> 4, data[start + 4] & 15, data[start + 5] >> 4, 0
    if version:
        of_index = data[start + 5] & 15
    position = start + 6

    def take(size: int) -> int:
        nonlocal position
        position += size
        if position > len(data):
            raise IndexError("the places of items end early")
        return int.from_bytes(data[position - size : position], "big")

    for _ in range(take(4 if version == 2 else 2)):
        item = take(4 if version == 2 else 2)
        method = take(2) & 15 if version else 0
        take(2)
        base = take(of_base)
        for _ in range(take(2)):
            take(of_index)
            offset, length = take(of_offset), take(of_length)
            if method == 0:
                yield item, base + offset, length


def _boxes(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """(name, (start, end) of the content) of each box between two positions."""
    for _ in range(_MOST_BOXES):
        if start + 8 > end:
            return
        size, name = struct.unpack_from(">I4s", data, start)
        content = start + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, content)
            content += 8
        stop = end if size == 0 else start + size
        if stop < content or stop > end:
            raise IndexError("a box ends behind what holds it")
        yield name, (content, stop)
        start = stop


def _meta(data: bytes) -> dict[bytes, tuple[int, int]]:
    """Names and places of the boxes in the first ``meta``. What follows it may be cut."""
    for name, (start, end) in _boxes(data, 0, len(data)):
        if name == b"meta":
            return dict(_boxes(data, start + 4, end))
    raise NoPictureError("no still picture, only a sequence" if b"moov" in data else "no main picture")


def _properties_of(data: bytes, start: int, item: int) -> Iterator[int]:
    """Numbers of an item's properties, counted from 1."""
    version, flags = data[start], data[start + 3]
    (count,) = struct.unpack_from(">I", data, start + 4)
    position = start + 8
    for _ in range(count):
        (found,) = struct.unpack_from(">H" if version == 0 else ">I", data, position)
        position += 2 if version == 0 else 4
        associations = data[position]
        position += 1
        for _ in range(associations):
            if flags & 1:
                (number,) = struct.unpack_from(">H", data, position)
                position, number = position + 2, number & 0x7FFF
            else:
                number, position = data[position] & 0x7F, position + 1
            if found == item:
                yield number
        if found == item:
            return
