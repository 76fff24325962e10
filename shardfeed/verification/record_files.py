"""Deep verification of what lies beside a shard for each record: its table and the mapped index.

Both are compared with what a reading of the shard gave. A table is read in row groups, an index in
the piece of one shard.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c_file
from shardfeed.format.columns import Column
from shardfeed.format.hashing import MASK128, key_hash
from shardfeed.format.manifest import Manifest, RecordTable, Split
from shardfeed.format.record_index import (
    DTYPE,
    INDEX_HEADER_BYTES,
    ITEM_BYTES,
    IndexColumn,
    IndexHeader,
    index_files,
    parse_header,
)
from shardfeed.format.record_table import batch_digest, read_batches
from shardfeed.storage.base import NotFoundError, Store, UnreadableError
from shardfeed.storage.stored_file import open_file
from shardfeed.verification.record import value_hash
from shardfeed.verification.report import Finding, no_file, restore

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Beside:
    """What the manifest says of the files beside one shard.

    ``first``: records of the split before this shard. ``table``: None in a dataset of version 1.
    """

    split: str
    first: int
    table: RecordTable | None


@dataclass(slots=True)
class Seen:
    """Columns of the records of one shard, as they were read; ``hashes``: 64 bits of the key's.

    ``classes``: -1 unless each record has one label; then ``several`` has the classes of each.
    ``further``: ``value_hash`` of the declared columns, one record behind the other.
    """

    offsets: array[int] = field(default_factory=lambda: array("Q"))
    hashes: array[int] = field(default_factory=lambda: array("Q"))
    classes: array[int] = field(default_factory=lambda: array("i"))
    several: list[tuple[int, ...]] = field(default_factory=list)
    heights: array[int] = field(default_factory=lambda: array("I"))
    widths: array[int] = field(default_factory=lambda: array("I"))
    further: array[int] = field(default_factory=lambda: array("Q"))


def files_beside(manifest: Manifest) -> dict[str, Beside]:
    """What lies beside each shard, by the shard's name."""
    tables = {table.file: table for table in manifest.tables}
    return {
        shard.file: Beside(name, first, tables.get(naming.table_name(shard.file)))
        for name, split in manifest.splits.items()
        for shard, first in zip(split.shards, accumulate((s.records for s in split.shards), initial=0), strict=False)
    }


def check_indexes(store: Store, manifest: Manifest, whole: Mapping[str, int]) -> Iterator[Finding]:
    """Compares size and header of each mapped index. ``whole``: bytes of files by name."""
    for name, split in manifest.splits.items():
        for column, index in index_files(name).items():
            if index in whole:
                yield from _header(store, manifest, split, column, index, whole[index])


def _header(
    store: Store, manifest: Manifest, split: Split, column: IndexColumn, name: str, size: int
) -> Iterator[Finding]:
    remedy, expected_size = restore(name, store.url), INDEX_HEADER_BYTES + split.records * ITEM_BYTES[column]
    if size != expected_size:
        yield Finding(name, None, "size", f"{expected_size} bytes for {split.records} records", f"{size} bytes", remedy)
        return
    try:
        with open_file(store, name, size) as file:
            found = parse_header(file.read(INDEX_HEADER_BYTES), column)
            _, crc = crc32c_file(file)
    except NotFoundError:
        yield no_file(name, size, store.url)
    except UnreadableError:  # which is a ValueError
        raise
    except ValueError as error:
        yield Finding(name, 0, "header", "a header in order", str(error), remedy)
    else:
        expected = IndexHeader(column, manifest.fingerprint, split.records, len(split.shards), found.crc32c)
        if found != expected:
            yield Finding(name, 0, "header", _shown(expected), _shown(found), remedy)
        elif crc != found.crc32c:
            yield Finding(name, INDEX_HEADER_BYTES, "crc32c of the column", f"{found.crc32c:08x}", f"{crc:08x}", remedy)


def _shown(header: IndexHeader) -> str:
    return f"fingerprint {header.fingerprint}, {header.records} records, {header.shards} shards"


def check_beside(
    store: Store, manifest: Manifest, beside: Beside, size: int, seen: Seen, present: Mapping[str, int]
) -> list[Finding]:
    """Compares index and table with the records of a shard of ``size`` bytes.

    ``present``: bytes by name of the files that were found, without those of a wrong size.
    """
    findings: list[Finding] = []
    values: dict[IndexColumn, Sequence[int]] = {"offsets": seen.offsets, "classes": seen.classes}
    for column, name in index_files(beside.split).items():
        if name in present:
            findings += _piece(store, name, column, beside.first, values[column], present[name])
    if beside.table is not None and beside.table.file in present:
        findings += _table(store, manifest, beside.table, size, seen, present[beside.table.file])
    return findings


def _piece(
    store: Store, name: str, column: IndexColumn, first: int, values: Sequence[int], size: int
) -> Iterator[Finding]:
    """Compares a shard's piece of an index, which begins with record ``first`` of the split."""
    item = ITEM_BYTES[column]
    at, expected = INDEX_HEADER_BYTES + first * item, np.asarray(values)
    try:
        with open_file(store, name, size, at) as file:
            found = np.frombuffer(file.read(len(values) * item), DTYPE[column])
    except NotFoundError:
        yield no_file(name, size, store.url)
        return
    if len(found) < len(expected):
        return  # its size is wrong, and reported
    for number in np.flatnonzero(found != expected)[:1].tolist():
        what = f"record {first + number}: {'offset' if column == 'offsets' else 'class'}"
        shown = f"{expected[number]} as in the shard", str(found[number])
        yield Finding(name, at + number * item, what, *shown, restore(name, store.url))


def _table(
    store: Store, manifest: Manifest, table: RecordTable, size: int, seen: Seen, file_size: int
) -> Iterator[Finding]:
    """Compares a table with the records of a shard of ``size`` bytes, then with its digest."""
    remedy, rows, digest = restore(table.file, store.url), 0, 0
    records = len(seen.offsets)
    try:
        with open_file(store, table.file, file_size) as file:
            for batch in read_batches(file, manifest.label_kind):
                end = min(rows + len(batch), records)
                for number, name, expected, found in _differing(manifest, batch.slice(0, end - rows), size, seen, rows):
                    what = f"row {number}: {name}"
                    yield Finding(table.file, None, what, f"{clip(expected)} as in the shard", clip(found), remedy)
                    return
                rows, digest = rows + len(batch), (digest + batch_digest(batch)) & MASK128
    except NotFoundError:
        yield no_file(table.file, file_size, store.url)
    except UnreadableError:  # which is a ValueError
        raise
    except ValueError as error:
        yield Finding(table.file, None, "table", f"a record table of {table.rows} rows", str(error), remedy)
    else:
        if rows != records:
            yield Finding(table.file, None, "rows", f"{records} as the shard has records", f"{rows}", remedy)
        elif rows != table.rows:
            shown = f"{rows} as in the file", f"{table.rows}"
            yield Finding(naming.MANIFEST, None, f"rows of {table.file}", *shown, restore(naming.MANIFEST, store.url))
        elif f"{digest:032x}" != table.digest:
            yield Finding(table.file, None, "digest of the rows", table.digest, f"{digest:032x}", remedy)


def _differing(
    manifest: Manifest, batch: pa.RecordBatch, size: int, seen: Seen, first: int
) -> Iterator[tuple[int, str, Any, Any]]:
    """(row, column, expected, found) of values unlike the shard's; row 0 is record ``first``."""
    own = slice(first, first + len(batch))
    ends = np.append(np.asarray(seen.offsets[first + 1 : first + len(batch) + 1]), np.uint64(size))[: len(batch)]
    offsets, classes = np.asarray(seen.offsets[own]), seen.classes[own].tolist()
    keys: list[str] = batch.column("key").to_pylist()
    labels = _label_columns(manifest, classes, seen.several[own])
    columns: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
        "offset": (offsets.tolist(), batch.column("offset").to_pylist()),
        "bytes": ((ends - offsets).tolist(), batch.column("bytes").to_pylist()),
        **{name: (values, batch.column(name).to_pylist()) for name, values in labels.items()},
        "height": (seen.heights[own].tolist(), batch.column("height").to_pylist()),
        "width": (seen.widths[own].tolist(), batch.column("width").to_pylist()),
        "format": ([manifest.image.format] * len(batch), batch.column("format").to_pylist()),
    }
    for name, (expected, found) in columns.items():
        if expected != found:
            number = next(i for i, pair in enumerate(zip(expected, found, strict=True)) if pair[0] != pair[1])
            yield first + number, name, expected[number], found[number]
    for number, (key, wanted) in enumerate(zip(keys, seen.hashes[own], strict=True)):
        if key_hash(key.encode()) >> 64 != wanted:
            yield first + number, "key", "the key", key
    for place, raw in enumerate(manifest.columns):
        column, count = Column.from_raw(raw), len(manifest.columns)
        index = batch.schema.get_field_index(column.name)
        if index < 0 or batch.schema.field(index).type != column.arrow_type():
            raise ValueError(f"it has no column {clip(column.name)} of {column.arrow_type()}")
        hashes = seen.further[first * count + place : (first + len(batch)) * count : count]
        for number, (value, wanted) in enumerate(zip(batch.column(index).to_pylist(), hashes, strict=True)):
            if value_hash(column.encode(value)) != wanted:
                yield first + number, f"column {clip(column.name)}", "the value", value


def _label_columns(
    manifest: Manifest, classes: list[int], several: Sequence[Sequence[int]]
) -> dict[str, Sequence[Any]]:
    """Columns of labels as the table must have them."""
    names = manifest.classes
    if manifest.label_kind == "single":
        return {"class": classes, "label": [names[index] for index in classes]}
    nothing = [None] * len(classes)
    found: dict[str, Sequence[Any]] = {"class": nothing, "label": nothing}
    if manifest.label_kind == "multi":
        found["classes"] = [list(each) for each in several]
        found["labels"] = [[names[index] for index in each] for each in several]
    return found
