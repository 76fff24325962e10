"""The mapped index of a split: where each record begins, and its class, by the record's number.

Two files per split, each a header and one column, in the order of the shards:

- ``train.index``: uint64 little-endian, the offset of a record's frame inside its shard;
- ``train.classes``: int32 little-endian, the index of the record's class.

A record ends where the next one begins, or where its shard ends. How many records each shard has
is in the manifest. So a reader maps the file and needs nothing else: opening 100 million records
reads 64 bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c

IndexColumn = Literal["offsets", "classes"]

VERSION = 1
INDEX_HEADER_BYTES = 64
ITEM_BYTES: dict[IndexColumn, int] = {"offsets": 8, "classes": 4}
DTYPE: dict[IndexColumn, str] = {"offsets": "<u8", "classes": "<i4"}

_MAGIC: dict[IndexColumn, bytes] = {"offsets": b"SFEEDIDX", "classes": b"SFEEDCLS"}
_HEADER = struct.Struct("<8sI16sQQI")  # magic, version, fingerprint, records, shards, crc32c of the column
_CRC = struct.Struct("<I")  # of the header's bytes before it; the last four


def index_files(split: str) -> dict[IndexColumn, str]:
    """Names of the two files of a split's index, by column."""
    return {"offsets": naming.split_index_name(split), "classes": naming.split_classes_name(split)}


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """What the first 64 bytes of an index say; ``crc32c`` is that of the column behind them."""

    column: IndexColumn
    fingerprint: str
    records: int
    shards: int
    crc32c: int

    def to_bytes(self) -> bytes:
        """``INDEX_HEADER_BYTES`` bytes, closed by their own crc32c."""
        body = _HEADER.pack(
            _MAGIC[self.column], VERSION, bytes.fromhex(self.fingerprint), self.records, self.shards, self.crc32c
        )
        body = body.ljust(INDEX_HEADER_BYTES - _CRC.size, b"\0")
        return body + _CRC.pack(crc32c(body))


def parse_header(data: bytes, column: IndexColumn) -> IndexHeader:
    """The header in the first bytes of an index of ``column``.

    Raises:
        ValueError: another kind of file, an unknown version, or damage; says which.
    """
    if len(data) < INDEX_HEADER_BYTES:
        raise ValueError(f"{len(data)} bytes, a header has {INDEX_HEADER_BYTES}")
    body, (crc,) = data[: INDEX_HEADER_BYTES - _CRC.size], _CRC.unpack_from(data, INDEX_HEADER_BYTES - _CRC.size)
    magic, version, fingerprint, records, shards, column_crc = _HEADER.unpack_from(body)
    if magic != _MAGIC[column]:
        raise ValueError(f"it begins with {magic!r}, an index of {column} with {_MAGIC[column]!r}")
    if crc32c(body) != crc:
        raise ValueError(f"its header has crc32c {crc32c(body):08x}, expected {crc:08x}")
    if version != VERSION:
        raise ValueError(f"version {version}, this shardfeed reads version {VERSION}")
    return IndexHeader(column, fingerprint.hex(), records, shards, column_crc)
