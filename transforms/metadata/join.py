"""Rows find their images: both sides are cut into buckets by a hash of the key, then matched.

The keys themselves are compared, so equal hashes do no harm. A bucket holds packed references and
packed rows, and is small enough for the memory of one process. Locally the buckets lie in a file
(``join_here``); on an engine they are what a CoGroupByKey groups.

Nothing here fails. What is wrong travels on as batches with a fault, so that counting can report
all of it: with the same numbers and examples on every driver.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from shardfeed.errors import clip
from shardfeed.format.hashing import hash64
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, RefBatch, pack_ref, unpack_keys, with_row
from shardfeed.transforms.metadata.table import MetadataTable, TableRow, read_rows, row_name

BUCKETS = 1_024  # at 100 M images some 100,000 references of each, about 20 MB with their rows
_BATCH = 10_000  # references, as in the listing
_ROWS = 10_000  # of the table at a time
_HEAD = struct.Struct("<QII")  # number of the row, bytes of key, bytes of row

DOUBLED, NO_ROW, NO_IMAGE = "doubled_row", "no_row", "no_image"
TABLE_FAULTS = {
    DOUBLED: (
        "--metadata has images with two different rows ({count}): {examples}. Rows count as equal if label, split, group and "
        "stored columns are. Remove one of each two."
    ),
}
UNMATCHED_KINDS = {
    NO_IMAGE: (
        "rows of --metadata without an image in --input: {count} ({examples})",
        "A row names its image by the path below the input. Name another --key_column, add what is missing with --key_format "
        "'train/{}.jpg',",
    ),
    NO_ROW: (
        "images without a row in --metadata: {count} ({examples})",
        "Add rows, leave the images out of --input,",
    ),
}
"""What was found, and the remedy beside ``--max_unmatched``."""


def refs_by_bucket(batch: RefBatch) -> dict[int, bytes]:
    """The packed references of a listed batch, by bucket."""
    pieces: dict[int, list[bytes]] = {}
    if not batch.fault:
        for key, _, packed in unpack_keys(batch.refs):
            pieces.setdefault(_bucket(key), []).append(packed)
    return {bucket: b"".join(packed) for bucket, packed in pieces.items()}


def without_refs(batch: RefBatch) -> RefBatch:
    """What a batch says besides its references: skipped files and faults, which need no row."""
    return batch if batch.fault else RefBatch("", b"", batch.skipped)


def rows_by_bucket(rows: Iterable[TableRow]) -> dict[int, bytes]:
    """Packed rows, by bucket."""
    pieces: dict[int, list[bytes]] = {}
    for number, key, row in rows:
        pieces.setdefault(_bucket(key), []).append(_HEAD.pack(number, len(key), len(row)) + key + row)
    return {bucket: b"".join(packed) for bucket, packed in pieces.items()}


def table_in_buckets(table: MetadataTable, check: Callable[[], None]) -> Iterator[dict[int, bytes]]:
    """The packed rows of a table by bucket, some thousand rows at a time.

    ``check`` is called now and then; it raises to end the reading.
    """
    rows = read_rows(table)
    while some := list(islice(rows, _ROWS)):
        check()
        yield rows_by_bucket(some)


def match_bucket(refs: Iterable[bytes], rows: Iterable[bytes]) -> Iterator[RefBatch]:
    """The references of a bucket with their rows, and batches of what does not match.

    An image without a row counts as skipped. The batches of ``DOUBLED`` and ``NO_IMAGE`` hold texts
    in place of keys.
    """
    found, doubled = _rows_by_key(rows)
    matched: set[bytes] = set()
    with_rows: list[bytes] = []
    without: list[bytes] = []
    for packed in refs:
        for key, _, piece in unpack_keys(packed):
            if (row := found.get(key)) is None:
                without.append(piece)
                continue
            matched.add(key)
            with_rows.append(with_row(piece, row))
            if len(with_rows) == _BATCH:
                yield RefBatch("", b"".join(with_rows))
                with_rows = []
    if with_rows:
        yield RefBatch("", b"".join(with_rows))
    if without:
        yield RefBatch("", b"".join(without), {NO_ROW: len(without)}, NO_ROW)
    for fault, keys in ((NO_IMAGE, found.keys() - matched), (DOUBLED, doubled)):
        if keys:
            yield RefBatch("", b"".join(pack_ref(ImageRef(0, key[:_LONGEST], Stat(0, 0))) for key in keys), fault=fault)


_LONGEST = 0xFFFF


def _rows_by_key(packed: Iterable[bytes]) -> tuple[dict[bytes, bytes], list[bytes]]:
    """A row per key, and texts about the keys that have different rows."""
    found: dict[bytes, tuple[int, bytes]] = {}
    again: dict[bytes, list[tuple[int, bytes]]] = {}
    for number, key, row in _unpack_rows(packed):
        before = found.setdefault(key, (number, row))
        if before[0] != number:
            again.setdefault(key, [before]).append((number, row))
    doubled = []
    for key, several in again.items():
        (first, row), *others = sorted(several)
        if other := next((number for number, second in others if second != row), None):
            doubled.append(f"{clip(key, 60)} (rows {row_name(first)} and {row_name(other)})".encode())
    return {key: row for key, (_, row) in found.items()}, doubled


def _unpack_rows(many: Iterable[bytes]) -> Iterator[TableRow]:
    for packed in many:
        at, end = 0, len(packed)
        while at < end:
            number, key_bytes, row_bytes = _HEAD.unpack_from(packed, at)
            key = at + _HEAD.size
            row = key + key_bytes
            at = row + row_bytes
            yield number, packed[key:row], packed[row:at]


def _bucket(key: bytes) -> int:
    return hash64("join", 0, key) * BUCKETS >> 64
