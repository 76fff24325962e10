"""What a build writes for each record of a shard: its index line, its row, its place in the index.

All of it comes from the rows in the sidecars of the shard's parts. The table is written in row
groups, so its rows are never held all at once.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.format.columns import decode_features
from shardfeed.format.record_table import ROW_GROUP, TableWriter, schema, table_value
from shardfeed.transforms.duplicates.table_column import duplicate_column
from shardfeed.transforms.elements import Duplicates, Plan, ShardPlan
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.finished_parts import finished_sidecars
from shardfeed.transforms.output.part_rows import (
    CRC_KNOWN,
    FIX_BITS,
    HASH_KNOWN,
    ROW_BYTES,
    PartRows,
    extras_bytes,
    unpack_extras,
)
from shardfeed.transforms.publish.mapped_index import put_pieces
from shardfeed.transforms.stores.base import WritableStore

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def write_record_files(
    store: WritableStore, plan: Plan, options: BuildOptions, duplicates: Duplicates, shard: ShardPlan
) -> dict[str, Any]:
    """Publishes a shard's index and table, and leaves its pieces of the split's index.

    Gives the fields of ``ShardResult`` that tell of them.

    Raises:
        ConflictError: another file has a name.
        AlreadyBuiltError: the parts are swept, because this dataset was published meanwhile.
        IncompleteError: a part is gone.
    """
    name = naming.shard_name(shard.split, shard.index, shard.count)
    table, end = TableWriter(options.columns, plan.label_kind), 0
    groups = duplicate_column(store.url, plan, shard, duplicates)
    lines, offsets, classes = [], [], []
    parts = [(shard.split, part.part) for part in shard.parts]
    for rows in _row_groups(sidecar.rows for sidecar in finished_sidecars(store, plan.fingerprint, parts)):
        columns = rows.columns()
        size = columns["bytes"].astype(np.int64)
        offset = end + np.cumsum(size) - size
        end += int(size.sum())
        lines += [f"{at} {of}\n" for at, of in zip(offset.tolist(), size.tolist(), strict=True)]
        offsets.append(offset)
        classes.append(columns["class"])
        begin = table.rows
        table.add(_batch(rows, offset, groups[begin : begin + len(columns)], plan, options))
    index = "".join(lines).encode()
    store.publish(naming.index_name(name), index)
    _publish_table(store, naming.table_name(name), table, plan.label_kind)
    offsets_crc, classes_crc = put_pieces(
        store, plan.fingerprint, name, np.concatenate(offsets), np.concatenate(classes)
    )
    return {
        "index_bytes": len(index),
        "index_crc32c": crc32c(index),
        "offsets_crc32c": offsets_crc,
        "classes_crc32c": classes_crc,
        "table_digest": f"{table.digest:032x}",
    }


def _publish_table(store: WritableStore, name: str, table: TableWriter, label_kind: str) -> None:
    """Publishes a table. One with the same rows is as good: pyarrow may be another."""
    value = table.rows, table.digest

    def same(found: bytes) -> bool:
        try:
            return table_value(io.BytesIO(found), label_kind) == value
        except ValueError:
            return False

    store.publish(name, table.finish(), same=same)


def _row_groups(many: Iterable[PartRows]) -> Iterator[PartRows]:
    """The rows of many parts, ``ROW_GROUP`` at a time."""
    fixed, keys, extras = bytearray(), bytearray(), bytearray()
    for rows in many:
        fixed += rows.fixed
        keys += rows.keys
        extras += rows.extras
        while len(fixed) >= ROW_GROUP * ROW_BYTES:
            group = PartRows(bytes(fixed[: ROW_GROUP * ROW_BYTES]))
            end = int(group.columns()["key_bytes"].sum())
            size = extras_bytes(extras, ROW_GROUP)
            yield PartRows(group.fixed, bytes(keys[:end]), bytes(extras[:size]))
            del fixed[: ROW_GROUP * ROW_BYTES], keys[:end], extras[:size]
    if fixed:
        yield PartRows(bytes(fixed), bytes(keys), bytes(extras))


def _batch(rows: PartRows, offset: np.ndarray, groups: np.ndarray, plan: Plan, options: BuildOptions) -> pa.RecordBatch:
    """Rows as the table has them."""
    import pyarrow as pa

    found, types = rows.columns(), schema(options.columns, plan.label_kind)
    features = [decode_features(joined) for joined in unpack_extras(rows.extras)]
    ends = np.zeros(len(found) + 1, np.int32)
    np.cumsum(found["key_bytes"], out=ends[1:])
    bits = found["fixes"].tolist()
    fixes = {value: [fix for fix, bit in FIX_BITS.items() if bit & value] for value in set(bits)}
    # pa.array of NumPy's arrays, and take(), import as much again as a build has imported before.
    columns = {
        "key": pa.StringArray.from_buffers(len(found), pa.py_buffer(ends), pa.py_buffer(rows.keys)),
        **_label_columns(found["class"].tolist(), features, plan),
        "offset": _numbers(pa.int64(), offset),
        "format": pa.array([options.image.format] * len(found), pa.string()),
        "crc32c": _numbers(pa.uint32(), found["crc32c"], found["known"] & CRC_KNOWN != 0),
        "hash": _numbers(pa.uint64(), found["hash"], found["known"] & HASH_KNOWN != 0),
        "duplicate_group": _numbers(pa.int32(), np.maximum(groups, 0), groups >= 0),
        "fixes": pa.array([fixes[value] for value in bits], types.field("fixes").type),
    }
    for column in options.columns:
        values = [column.value(record[column.name]) for record in features]
        columns[column.name] = pa.array(values, column.arrow_type())
    arrays = [
        columns[field.name] if field.name in columns else _numbers(field.type, found[field.name]) for field in types
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=types)


def _label_columns(indexes: list[int], features: Sequence[Mapping[str, Any]], plan: Plan) -> dict[str, pa.Array]:
    """The columns of labels. ``indexes``: of the only class; ``features``: hold several classes."""
    import pyarrow as pa

    classes, types = plan.classes, schema(label_kind=plan.label_kind)
    if plan.label_kind == "single":
        return {"label": pa.array([classes[index] for index in indexes], pa.string())}
    nothing = [None] * len(indexes)
    columns = {"class": pa.array(nothing, pa.int32()), "label": pa.array(nothing, pa.string())}
    if plan.label_kind == "multi":
        lists = [record["class"] for record in features]
        columns["classes"] = pa.array(lists, types.field("classes").type)
        columns["labels"] = pa.array([[classes[index] for index in own] for own in lists], types.field("labels").type)
    return columns


def _numbers(kind: pa.DataType, values: NDArray[Any], known: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of numbers; ``known``: which values are not null, by default all."""
    import pyarrow as pa

    valid = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values.astype(str(kind)))])
