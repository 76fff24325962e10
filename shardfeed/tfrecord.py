"""TFRecord framing: ``uint64 length | masked crc of length | data | masked crc of data``, little-endian.

TFRecord has no footer: a file cut at a record's boundary is a valid file. That is why sizes and counts live in the
manifest, and why this scanner is given the size it must find.
"""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from shardfeed.checksums import crc32c

OVERHEAD = 16  # bytes of framing a record
HEADER_BYTES = 12  # of them before its data
MAX_RECORD_BYTES = 1 << 30  # a length above this is damage; it must not be allocated

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


class RecordError(ValueError):
    """A damaged record: ``offset`` (bytes) and ``index`` of the record, what was ``expected`` and what was ``found``.

    ``end``: where the next record begins, if the length is in order and all of the record is there; else None.
    """

    def __init__(
        self, *, offset: int, index: int, what: str, expected: str, found: str, end: int | None = None
    ) -> None:
        super().__init__(f"record {index} at byte {offset}: {what}: expected {expected}, found {found}")
        self.offset, self.index, self.what, self.expected, self.found = offset, index, what, expected, found
        self.end = end


def mask(crc: int) -> int:
    """TFRecord's crc mask: rotate right by 15 bits and add a constant (tensorflow/core/lib/hash/crc32c.h)."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """One framed record."""
    length = _LENGTH.pack(len(data))
    return b"".join((length, _CRC.pack(mask(crc32c(length))), data, _CRC.pack(mask(crc32c(data)))))


def scan(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, data) of each record, every crc checked.

    Raises:
        RecordError: at the first damaged record, with its offset.
    """
    offset = index = 0
    while (data := read_record(file, offset, index)) is not None:
        yield offset, data
        offset += len(data) + OVERHEAD
        index += 1


def split(block: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the data of each record of a whole block begins and ends, every crc checked: ``scan`` without a copy.

    Raises:
        RecordError: at the first damaged record, with its offset.
    """
    starts, stops, at, size, length = [], [], 0, len(block), _LENGTH.unpack_from
    while (start := at + _HEADER.size) < size:
        stop = start + length(block, at)[0]
        at = stop + _CRC.size
        starts.append(start)
        stops.append(stop)
    if at == size and _checksums_hold(block, starts, stops):
        return np.array(starts, np.int64), np.array(stops, np.int64)
    spans = [(offset + _HEADER.size, len(data)) for offset, data in scan(io.BytesIO(block))]  # which says what is wrong
    return np.array([at for at, _ in spans], np.int64), np.array([at + size for at, size in spans], np.int64)


def _checksums_hold(block: bytes, starts: list[int], stops: list[int]) -> bool:
    """All at once: record by record the interpreter would be busy for as long as a tenth of an image takes to decode."""
    data, count = np.frombuffer(block, np.uint8), len(starts)
    headers = data[np.array(starts, np.int64)[:, None] + np.arange(-_HEADER.size, 0)]
    tails = data[np.array(stops, np.int64)[:, None] + np.arange(_CRC.size)]
    table, zeros = _length_crcs()
    lengths = zeros ^ np.bitwise_xor.reduce(table[np.arange(_LENGTH.size), headers[:, : _LENGTH.size]], axis=1)
    crcs = np.fromiter(map(google_crc32c.value, map(block.__getitem__, map(slice, starts, stops))), np.uint32, count)
    stored = np.ascontiguousarray(headers[:, _LENGTH.size :]).view("<u4")[:, 0], tails.view("<u4")[:, 0]
    return bool((_mask_all(lengths) == stored[0]).all() and (_mask_all(crcs) == stored[1]).all())


def _mask_all(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """``mask`` of each."""
    masked: NDArray[np.uint32] = (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_MASK_DELTA)
    return masked


@functools.cache
def _length_crcs() -> tuple[NDArray[np.uint32], np.uint32]:
    """The crc of a length is the crc of eight zeros, changed by what each byte adds at its place: crcs are linear."""
    zeros = crc32c(bytes(_LENGTH.size))
    table = [[crc32c(_LENGTH.pack(byte << 8 * place)) ^ zeros for byte in range(256)] for place in range(_LENGTH.size)]
    return np.array(table, np.uint32), np.uint32(zeros)


def read_record(file: BinaryIO, offset: int, index: int) -> bytes | None:
    """Data of the record at which ``file`` stands, every crc checked; None at the end of the file.

    ``offset`` and ``index`` say in errors which record it is.

    Raises:
        RecordError: the record is damaged; ``file`` stands at ``error.end``, where that is known.
    """
    header = file.read(_HEADER.size)
    if not header:
        return None
    if len(header) < _HEADER.size:
        raise RecordError(
            offset=offset, index=index, what="header is cut",
            expected=f"{_HEADER.size} bytes", found=f"{len(header)} bytes",
        )  # fmt: skip
    length, length_crc = _HEADER.unpack(header)
    _check(offset, index, "crc of the length", length_crc, header[:8], None)
    if length > MAX_RECORD_BYTES:
        raise RecordError(
            offset=offset, index=index, what="length",
            expected=f"at most {MAX_RECORD_BYTES} bytes", found=f"{length} bytes",
        )  # fmt: skip
    body = file.read(length + _CRC.size)
    if len(body) < length + _CRC.size:
        raise RecordError(
            offset=offset, index=index, what="data is cut",
            expected=f"{length + _CRC.size} bytes", found=f"{len(body)} bytes",
        )  # fmt: skip
    data = body[:length]
    _check(offset, index, "crc of the data", _CRC.unpack_from(body, length)[0], data, offset + length + OVERHEAD)
    return data


def _check(offset: int, index: int, what: str, stored: int, data: bytes, end: int | None) -> None:
    found = mask(crc32c(data))
    if found != stored:
        raise RecordError(
            offset=offset, index=index, what=what, expected=f"{stored:08x}", found=f"{found:08x}", end=end
        )
