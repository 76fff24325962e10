"""TFRecord framing.

A record is ``uint64 length | masked crc of length | data | masked crc of data``, little-endian.
TFRecord has no footer: a file that is cut at a record's boundary is a valid file. So the manifest
holds sizes and counts, and whoever scans a file compares them.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import BinaryIO

from shardfeed.format.checksums import crc32c

HEADER_BYTES = 12  # before a record's data
CRC_BYTES = 4  # after it
OVERHEAD = HEADER_BYTES + CRC_BYTES  # per record
MAX_RECORD_BYTES = 1 << 30  # a length above this is damage; it must not be allocated
MASK_DELTA = 0xA282EAD8

_HEADER = struct.Struct("<QI")
LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


class RecordError(ValueError):
    """A damaged record: its ``offset`` (bytes) and ``index``, the ``expected`` and the ``found``.

    ``end``: the offset of the next record, if the length is right and the record is not cut; else
    None.
    """

    def __init__(
        self, *, offset: int, index: int, what: str, expected: str, found: str, end: int | None = None
    ) -> None:
        super().__init__(f"record {index} at byte {offset}: {what}: expected {expected}, found {found}")
        self.offset, self.index, self.what, self.expected, self.found = offset, index, what, expected, found
        self.end = end


def mask(crc: int) -> int:
    """TFRecord's masked crc: rotated right by 15 bits, plus a constant.

    Source: tensorflow/core/lib/hash/crc32c.h.
    """
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """One framed record."""
    return b"".join((frame_header(len(data)), data, frame_footer(crc32c(data))))


def frame_header(size: int) -> bytes:
    """What precedes ``size`` bytes of data in a frame."""
    length = LENGTH.pack(size)
    return length + _CRC.pack(mask(crc32c(length)))


def frame_footer(crc: int) -> bytes:
    """What follows data of this ``crc`` in a frame."""
    return _CRC.pack(mask(crc))


def unframe(framed: bytes) -> bytes | None:
    """The data of exactly one framed record; None if its length or a crc is not right."""
    data = framed[HEADER_BYTES:-CRC_BYTES]
    return data if framed == frame(data) else None


def scan(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields (offset, data) of each record; every crc is checked.

    Raises:
        RecordError: the first damaged record.
    """
    offset = index = 0
    while (data := read_record(file, offset, index)) is not None:
        yield offset, data
        offset += len(data) + OVERHEAD
        index += 1


def read_record(file: BinaryIO, offset: int, index: int) -> bytes | None:
    """The data of the next record of ``file``, its crcs checked; None at the end of the file.

    ``offset`` and ``index`` tell in errors which record it is.

    Raises:
        RecordError: the record is damaged. ``file`` is at ``error.end`` then, if that is known.
    """
    header = file.read(_HEADER.size)
    if not header:
        return None
    damaged = functools.partial(RecordError, offset=offset, index=index)
    if len(header) < _HEADER.size:
        raise damaged(what="header is cut", expected=f"{_HEADER.size} bytes", found=f"{len(header)} bytes")
    length, stored = _HEADER.unpack(header)
    if (found := mask(crc32c(header[:8]))) != stored:
        raise damaged(what="crc of the length", expected=f"{stored:08x}", found=f"{found:08x}")
    if length > MAX_RECORD_BYTES:
        raise damaged(what="length", expected=f"at most {MAX_RECORD_BYTES} bytes", found=f"{length} bytes")
    body = file.read(length + _CRC.size)
    if len(body) < length + _CRC.size:
        raise damaged(what="data is cut", expected=f"{length + _CRC.size} bytes", found=f"{len(body)} bytes")
    data = body[:length]
    (stored,) = _CRC.unpack_from(body, length)
    if (found := mask(crc32c(data))) != stored:
        end = offset + length + OVERHEAD
        raise damaged(what="crc of the data", expected=f"{stored:08x}", found=f"{found:08x}", end=end)
    return data
