"""The records of a dataset that fulfil a condition, from its record tables; no shard is opened.

Tables are read one after the other, from a bucket a few ahead, so memory does not depend on the
dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.parts import whole_name
from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import Shard
from shardfeed.inspection.condition import Condition, plain_values
from shardfeed.inspection.first_records import StoredRecord
from shardfeed.inspection.table_rows import table_rows
from shardfeed.random_access.records import records
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
            labels, ``classes`` and ``labels`` replace ``class`` and ``label``. These and other
            lists, such as ``fixes``, are JSON; ``hash`` and bytes are hex digits.
        splits: Splits of the dataset, or parts of them.

    Raises:
        UsageError: a wrong condition; the dataset has no record tables.
        DatasetError: while reading: a table is absent, damaged, or is not the one of the manifest.
        StorageError: while reading: the store kept failing.
    """
    tables = {table.file for table in dataset.manifest.tables}
    condition = Condition(where, dataset.label_kind, dataset.columns)
    shards = [each for split in splits for each in _shards(dataset, split)]
    for _, shard, _, _ in shards:
        if naming.table_name(shard.file) not in tables:
            raise UsageError(
                f"the dataset at {clip(dataset.url)} has no record table for {shard.file}: its schema_version is "
                f"{dataset.manifest.schema_version}, and builds write tables since 2. Build the dataset again to have them."
            )
    many = table_rows(dataset, [shard for _, shard, _, _ in shards])
    return (hits for each, batches in zip(shards, many, strict=True) for hits in _hits(condition, *each, batches))


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
    condition: Condition, split: str, shard: Shard, first: int, wanted: range, batches: Iterator[pa.RecordBatch]
) -> Iterator[Hits]:
    """The hits in ``batches``, the rows of ``shard``.

    ``first``: the number of its first record. ``wanted``: numbers to look at.
    """
    at = first
    for batch in batches:
        start, stop = max(at, wanted.start), min(at + len(batch), wanted.stop)
        if start < stop:
            inside = batch.slice(start - at, stop - start)
            numbers = condition.matches(split, shard.file, start, inside)
            yield Hits(split, shard.file, numbers, start, inside)
        at += len(batch)
