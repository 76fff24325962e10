"""What the record tables say about all records: spreads, and where records to be drawn lie.

Only columns of numbers are read, and keys if records are looked for by key. Rows become no Python
objects, so ten million take seconds. Records are shuffled over the shards; therefore some tables
are a fair sample where reading all of them would take too long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.manifest import Shard
from shardfeed.format.record_table import ROW_GROUP
from shardfeed.reporting.spread import Spread
from shardfeed.runtime import cores
from shardfeed.storage.stored_file import open_whole
from shardfeed.verification.report import damaged

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_MOST_ROWS = 20_000_000  # some 10 s on two cores
_MOST_REMOTE = 32  # tables that are read from a bucket, most of them in one request
_REMOTE_THREADS = 8
_COLUMNS = ("offset", "bytes", "class", "height", "width", "source_bytes")


class RecordPlace(NamedTuple):
    """Where a record lies: its shard, and the offset and size of its frame in bytes."""

    split: str
    shard: str
    offset: int
    bytes: int


@dataclass
class TableFacts:
    """What was found in record tables.

    Attributes:
        tables: Number of tables that were read.
        rows: Number of their rows.
        spreads: ``width``, ``height``, ``ratio`` (width / height), ``bytes`` (of records with their
            frames) and ``source_bytes``.
        first: The first records of each wanted class.
        found: The records whose keys were looked for and found.
    """

    tables: int = 0
    rows: int = 0
    spreads: dict[str, Spread] = field(default_factory=dict)
    first: dict[int, list[RecordPlace]] = field(default_factory=dict)
    found: dict[str, RecordPlace] = field(default_factory=dict)


def read_tables(dataset: DatasetInfo, wanted: Mapping[int, int], keys: Collection[str]) -> TableFacts:
    """Reads the record tables of ``dataset``: all of them, or an even sample of many.

    Args:
        dataset: The dataset; without tables (``schema_version`` 1) nothing is found.
        wanted: How many records to find, by class. In a dataset without classes, class 0 is any
            record.
        keys: Keys of records to find.

    Raises:
        DatasetError: a table is absent or damaged.
        StorageError: the store kept failing.
    """
    if not dataset.manifest.tables:
        return TableFacts()
    chosen = _chosen(dataset)
    looked_for, remote = tuple(keys), storage.is_remote(dataset.url)
    facts = TableFacts()
    with ThreadPoolExecutor(_REMOTE_THREADS if remote else cores()) as pool:
        for found in pool.map(lambda each: _read(dataset, each[0], each[1], wanted, looked_for), chosen):
            _join(facts, found, wanted)
    return facts


def _chosen(dataset: DatasetInfo) -> Sequence[tuple[str, Shard]]:
    """The shards whose tables are read, those of the largest split first."""
    splits = sorted(dataset.manifest.splits.items(), key=lambda item: -item[1].records)
    shards = [(name, shard) for name, split in splits for shard in split.shards]
    most = len(shards)
    if rows := sum(shard.records for _, shard in shards):
        most = max(1, min(most, most * _MOST_ROWS // rows))
    if storage.is_remote(dataset.url):
        most = min(most, _MOST_REMOTE)
    return [shards[len(shards) * number // most] for number in range(most)]


def _join(facts: TableFacts, found: TableFacts, wanted: Mapping[int, int]) -> None:
    facts.tables, facts.rows = facts.tables + found.tables, facts.rows + found.rows
    facts.found |= found.found
    for name, spread in found.spreads.items():
        facts.spreads.setdefault(name, Spread()).join(spread)
    for number, places in found.first.items():
        known = facts.first.setdefault(number, [])
        known += places[: wanted[number] - len(known)]


def _read(dataset: DatasetInfo, split: str, shard: Shard, wanted: Mapping[int, int], keys: Sequence[str]) -> TableFacts:
    """What the table of one shard says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name, facts = naming.table_name(shard.file), TableFacts(tables=1)
    try:
        with open_whole(storage.open_store(dataset.url), name) as file:
            table = pq.ParquetFile(file)
            columns = [*_COLUMNS, *["classes"] * (dataset.label_kind == "multi"), *["key"] * bool(keys)]
            for batch in table.iter_batches(ROW_GROUP, columns=columns):
                _add(facts, dataset, batch, split, shard.file, wanted, pa.array(keys, pa.string()))
    except storage.NotFoundError:
        raise damaged(dataset.url, name, "it is not there") from None
    except (pa.ArrowException, OSError, KeyError) as error:  # KeyError: of a column
        raise damaged(dataset.url, name, f"it is no record table: {clip(error)}") from None
    if facts.rows != shard.records:
        raise damaged(dataset.url, name, f"it has {facts.rows:,} rows, and {shard.file} has {shard.records:,} records")
    return facts


def _add(
    facts: TableFacts,
    dataset: DatasetInfo,
    batch: pa.RecordBatch,
    split: str,
    shard: str,
    wanted: Mapping[int, int],
    keys: pa.Array,
) -> None:
    """Adds the rows of a batch."""
    import numpy as np
    import pyarrow.compute as pc

    height, width = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("height", "width"))
    numbers = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in ("bytes", "source_bytes")}
    ratio = np.divide(width, height, out=np.zeros(len(batch)), where=height > 0)
    for name, values in {"width": width, "height": height, "ratio": ratio, **numbers}.items():
        facts.spreads.setdefault(name, Spread()).add(values)
    facts.rows += len(batch)
    offset = batch.column("offset")

    def place(row: int) -> RecordPlace:
        return RecordPlace(split, shard, offset[row].as_py(), int(numbers["bytes"][row]))

    classes, rows = _classes(batch.column("classes" if dataset.label_kind == "multi" else "class"), dataset.classes)
    for number, most in wanted.items():
        if (missing := most - len(facts.first.get(number, ()))) > 0:
            first = rows[np.flatnonzero(classes == number)[:missing]].tolist()
            facts.first.setdefault(number, []).extend(map(place, first))
    if len(keys):
        known = batch.column("key")
        for row in np.flatnonzero(pc.is_in(known, value_set=keys).to_numpy(zero_copy_only=False)).tolist():
            facts.found[known[row].as_py()] = place(row)


def _classes(column: pa.Array, names: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(class, row) of each class that a row has: one, or several in a list.

    Without names of classes, each row has class 0.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not names:
        return np.zeros(len(column), np.int32), np.arange(len(column))
    if pa.types.is_list(column.type):
        return column.flatten().to_numpy(zero_copy_only=False), pc.list_parent_indices(column).to_numpy()
    return column.to_numpy(zero_copy_only=False), np.arange(len(column))
