"""The records of a dataset that fulfil a condition, from its record tables; no shard is opened.

Tables are read in row groups, one after the other, so memory does not depend on the dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.parts import whole_name
from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.hashing import MASK128
from shardfeed.format.manifest import RecordTable, Shard
from shardfeed.format.record_table import batch_digest, read_batches
from shardfeed.inspection.condition import Condition, plain_values
from shardfeed.inspection.first_records import StoredRecord
from shardfeed.random_access.records import records
from shardfeed.storage.stored_file import open_file
from shardfeed.verification.report import damaged

if TYPE_CHECKING:
    import pyarrow as pa

RecordRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Hits:
    """The hits in one row group.

    Attributes:
        split: Name of the split.
        file: Name of the shard.
        numbers: Their numbers in the split.
    """

    split: str
    file: str
    numbers: Sequence[int]
    _first: int  # number of the first row of ``_batch``
    _batch: pa.RecordBatch

    def rows(self, most: int) -> list[RecordRow]:
        """The first ``most`` hits: ``split``, ``file``, ``number`` and all columns of the table."""
        import pyarrow as pa

        numbers = self.numbers[:most]
        batch = self._batch.take(pa.array([number - self._first for number in numbers], pa.int64()))
        names = batch.schema.names
        columns = [plain_values(batch, name) for name in names]
        return [
            {"split": self.split, "file": self.file, "number": number, **dict(zip(names, values, strict=True))}
            for number, *values in zip(numbers, *columns, strict=True)
        ]


def find(dataset: DatasetInfo, where: str, splits: Sequence[SplitInfo]) -> Iterator[Hits]:
    """The records of ``splits`` that fulfil ``where``, in the stored order.

    Args:
        dataset: The dataset.
        where: An SQL expression on the columns of a record table, and on ``split``, ``file`` (name
            of the shard) and ``number`` (of the record in its split). If records may have several
            labels, ``classes`` and ``labels`` replace ``class`` and ``label``. These and other lists,
            such as ``fixes``, are JSON; ``hash`` and bytes are hex digits.
        splits: Splits of the dataset, or parts of them.

    Raises:
        UsageError: a wrong condition; the dataset has no record tables.
        DatasetError: while reading: a table is absent, damaged, or is not the one of the manifest.
        StorageError: while reading: the store kept failing.
    """
    tables = {table.file: table for table in dataset.manifest.tables}
    condition = Condition(where, dataset.label_kind, dataset.columns)
    shards = [each for split in splits for each in _shards(dataset, split)]
    for _, shard, _, _ in shards:
        if naming.table_name(shard.file) not in tables:
            raise UsageError(
                f"the dataset at {clip(dataset.url)} has no record table for {shard.file}: its schema_version is "
                f"{dataset.manifest.schema_version}, and builds write tables since 2. Build the dataset again to have them."
            )
    return (
        hits
        for split, shard, first, wanted in shards
        for hits in _hits(dataset, condition, split, shard, first, wanted, tables[naming.table_name(shard.file)])
    )


def stored_records(dataset: DatasetInfo, rows: Sequence[RecordRow]) -> list[StoredRecord]:
    """The records of hits, in the same order, with their images.

    Raises:
        DatasetError: a record is damaged, or is not the one that its table names.
        StorageError: the store kept failing.
    """
    found = []
    for split, hits in groupby(rows, lambda row: str(row["split"])):
        wanted = list(hits)
        items = records(dataset, split, decode=False).__getitems__([row["number"] for row in wanted])
        for row, item in zip(wanted, items, strict=True):
            if item["key"] != row["key"]:
                table = naming.table_name(row["file"])
                what = (
                    f"record {row['number']} of {split} has the key {clip(item['key'])}, and its row {clip(row['key'])}"
                )
                raise damaged(dataset.url, table, what)
            found.append(
                StoredRecord(
                    item["key"].encode(), *_labels(row), height=row["height"], width=row["width"], image=item["image"]
                )
            )
    return found


def _labels(row: RecordRow) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Classes and labels of a record, from its row."""
    if row["class"] is not None:
        return (row["class"],), (row["label"],)
    return tuple(row.get("classes", ())), tuple(row.get("labels", ()))


def _shards(dataset: DatasetInfo, split: SplitInfo) -> Iterator[tuple[str, Shard, int, range]]:
    """(split, shard, number of its first record, numbers to look at) of the shards to read."""
    name = whole_name(split.name)
    shards = dataset.manifest.splits[name].shards
    for shard, first in zip(shards, accumulate((shard.records for shard in shards), initial=0), strict=False):
        wanted = range(max(first, split.part.start), min(first + shard.records, split.part.stop))
        if wanted:
            yield name, shard, first, wanted


def _hits(
    dataset: DatasetInfo, condition: Condition, split: str, shard: Shard, first: int, wanted: range, table: RecordTable
) -> Iterator[Hits]:
    """The hits in the table of ``shard``.

    ``first``: the number of its first record. ``wanted``: numbers to look at.
    """
    at = first
    for batch in table_rows(dataset, shard, table):
        start, stop = max(at, wanted.start), min(at + len(batch), wanted.stop)
        if start < stop:
            inside = batch.slice(start - at, stop - start)
            numbers = condition.matches(split, shard.file, start, inside)
            yield Hits(split, shard.file, numbers, start, inside)
        at += len(batch)


def table_rows(dataset: DatasetInfo, shard: Shard, table: RecordTable) -> Iterator[pa.RecordBatch]:
    """The rows of a shard's ``table``, which are compared with the manifest when all are read.

    Raises:
        DatasetError: it is absent, damaged, or not the one of the manifest.
    """
    store, rows, digest = storage.open_store(dataset.url), 0, 0
    stat = store.stat(table.file)
    if stat is None:
        raise damaged(dataset.url, table.file, "it is not there")
    try:
        with open_file(store, table.file, stat.size) as file:
            for batch in read_batches(file, dataset.manifest.label_kind):
                rows, digest = rows + len(batch), (digest + batch_digest(batch)) & MASK128
                yield batch
    except ValueError as error:
        raise damaged(dataset.url, table.file, clip(error)) from None
    if rows != shard.records:
        raise damaged(dataset.url, table.file, f"it has {rows:,} rows, and {shard.file} has {shard.records:,} records")
    if f"{digest:032x}" != table.digest:
        what = f"its rows have the digest {digest:032x}, in the manifest it is {table.digest}"
        raise damaged(dataset.url, table.file, what)
