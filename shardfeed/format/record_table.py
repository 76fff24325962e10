"""The record table of a shard: a Parquet file with one row per record, in the shard's order.

Its bytes depend on the release of pyarrow that wrote it, so a table is told by its value: the
number of its rows, and a digest that does not depend on their order. The digest is the sum mod
2**128 of hash128("row", 0, row) over the rows, where a row is packed as in ``_FIXED``, then key,
label and format, then the fixes; each string as its length (uint32) and UTF-8, the fixes behind
their number (uint32); if records may have several labels, then these, packed like the fixes; then
the features of the columns that a metadata table gave.

If records may have several labels, ``class`` and ``label`` are null, and the columns ``classes``
and ``labels`` are there. In a dataset without labels ``class`` and ``label`` are null, too.

pyarrow is imported when a table is written or read, not before: few processes of a build do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from shardfeed.format.columns import Column, column_of_arrow
from shardfeed.format.hashing import MASK128, sum128

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_MAGIC = b"PAR1"
ROW_GROUP = 65_536  # rows that are written and read at a time, some 10 MB

# Columns of fixed size as the digest has them, little-endian; a null is 0, and not ``known``.
_FIXED = (
    ("offset", "i8"), ("bytes", "i8"), ("class", "i4"), ("height", "i4"), ("width", "i4"), ("root", "i4"),
    ("source_bytes", "i8"), ("version", "i8"), ("crc32c", "u4"), ("hash", "u8"),
    ("duplicate_group", "i4"),
)  # fmt: skip
_NULLABLE = ("crc32c", "hash", "duplicate_group")
_LISTS = ("fixes", "classes", "labels")
# ``known``: bit 1 if there is a crc32c, 2 if a hash, 4 if a group, 8 if there is no class.
_BEHIND = (("known", "u1"), ("key_bytes", "u4"))
# Sorted or narrow numbers shrink to a byte or two as differences; of hashes nothing shrinks.
_ENCODINGS = {
    "key": "DELTA_LENGTH_BYTE_ARRAY",
    "offset": "DELTA_BINARY_PACKED",
    "bytes": "DELTA_BINARY_PACKED",
    "source_bytes": "DELTA_BINARY_PACKED",
    "version": "DELTA_BINARY_PACKED",
    "crc32c": "PLAIN",
    "hash": "PLAIN",
}


def schema(columns: Sequence[Column] = (), label_kind: str = "single") -> pa.Schema:
    """Names and types of the columns; ``columns``: further ones, of a metadata table.

    ``label_kind``: as in the manifest.
    """
    import pyarrow as pa

    strings = pa.list_(pa.field("element", pa.string()))
    several = [("classes", pa.list_(pa.field("element", pa.int32()))), ("labels", strings)]
    return pa.schema(
        [
            ("key", pa.string()),
            ("label", pa.string()),
            ("class", pa.int32()),
            ("offset", pa.int64()),
            ("bytes", pa.int64()),
            ("height", pa.int32()),
            ("width", pa.int32()),
            ("format", pa.string()),
            ("root", pa.int32()),
            ("source_bytes", pa.int64()),
            ("version", pa.int64()),
            ("crc32c", pa.uint32()),
            ("fixes", strings),
            ("hash", pa.uint64()),
            ("duplicate_group", pa.int32()),
            *(several if label_kind == "multi" else ()),
            *((column.name, column.arrow_type()) for column in columns),
        ]
    )


class TableWriter:
    """Makes the bytes of a table from batches of rows.

    Only ``_NULLABLE`` columns may be null, and ``class`` and ``label`` unless ``label_kind`` is
    "single". ``columns``: further ones, of a metadata table, behind ours.

    Attributes:
        rows: Number of rows so far.
        digest: Their digest so far.
    """

    def __init__(self, columns: Sequence[Column] = (), label_kind: str = "single") -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        wanted = schema(columns, label_kind)
        lists = {*_LISTS, *(column.name for column in columns if column.shape)}
        plain = [name for name in wanted.names if name not in _ENCODINGS]
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(
            self._sink,
            wanted,
            compression="zstd",
            use_dictionary=[name + ".list.element" * (name in lists) for name in plain],
            column_encoding=_ENCODINGS,
            store_schema=False,
            write_statistics=False,  # of shuffled rows they exclude nothing
        )
        self.rows, self.digest = 0, 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a row group of at most ``ROW_GROUP`` rows."""
        self._writer.write_batch(batch, row_group_size=ROW_GROUP)
        self.rows, self.digest = self.rows + len(batch), (self.digest + batch_digest(batch)) & MASK128

    def finish(self) -> bytes:
        """The bytes of the file."""
        self._writer.close()
        return bytes(self._sink.getvalue())


def read_batches(file: BinaryIO, label_kind: str = "single") -> Iterator[pa.RecordBatch]:
    """The rows of the table in ``file``, at most ``ROW_GROUP`` at a time.

    ``label_kind``: of the dataset, as in its manifest.

    Raises:
        ValueError: it is not such a table, or it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    nullable = _NULLABLE if label_kind == "single" else (*_NULLABLE, "class", "label")
    if file.read(len(_MAGIC)) != _MAGIC:  # pyarrow looks at the end of the file only
        raise ValueError(f"it does not begin with {_MAGIC!r}")
    try:
        table = pq.ParquetFile(file)
        found = table.schema_arrow
        wanted = schema(_further_columns(found), label_kind)
        for field in wanted:
            if found.get_field_index(field.name) < 0 or found.field(field.name).type != field.type:
                raise ValueError(f"it has no column {field.name} of {field.type}")
        for batch in table.iter_batches(ROW_GROUP, columns=wanted.names):
            for field in wanted:
                column = batch.column(field.name)
                nulls = column.null_count or (isinstance(column, pa.ListArray) and column.values.null_count)
                if field.name not in nullable and nulls:
                    raise ValueError(f"a value of column {field.name} is null")
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is no Parquet file, or damaged: {str(error).rstrip('.')}") from None


def _further_columns(found: pa.Schema) -> list[Column]:
    """The columns of a metadata table, which stand behind ours.

    Raises:
        ValueError: a type that no such column has.
    """
    ours = set(schema(label_kind="multi").names)
    return [column_of_arrow(field.name, field.type) for field in found if field.name not in ours]


def table_value(file: BinaryIO, label_kind: str = "single") -> tuple[int, int]:
    """(rows, digest) of the table in ``file``, of a dataset of this ``label_kind``.

    Raises:
        ValueError: it is not such a table, or it is damaged.
    """
    rows = digest = 0
    for batch in read_batches(file, label_kind):
        rows, digest = rows + len(batch), (digest + batch_digest(batch)) & MASK128
    return rows, digest


def batch_digest(batch: pa.RecordBatch) -> int:
    """The digest of the rows of a batch.

    It reads the buffers, because most functions of an array import pyarrow.compute, pandas or both.
    """
    import numpy as np

    fixed = np.zeros(len(batch), np.dtype([(name, f"<{code}") for name, code in (*_FIXED, *_BEHIND)]))
    for name, _ in _FIXED:
        column = batch.column(name)
        values, known = _buffers(column, str(column.type))
        fixed[name] = values * known
        if name in _NULLABLE:
            fixed["known"] |= known.astype("u1") << _NULLABLE.index(name)
        if name == "class":
            fixed["known"] |= (1 - known.astype("u1")) << 3
    keys = [key.encode() for key in batch.column("key").to_pylist()]
    fixed["key_bytes"] = [len(key) for key in keys]
    width, packed = fixed.itemsize, fixed.tobytes()
    rows = zip(
        range(0, len(packed), width), keys, _packed(batch.column("label")), _packed(batch.column("format")),
        _packed_lists(batch.column("fixes")), _packed_features(batch), strict=True,
    )  # fmt: skip
    return sum128(
        "row",
        0,
        (packed[at : at + width] + key + label + kind + fixes + more for at, key, label, kind, fixes, more in rows),
    )


def _packed_features(batch: pa.RecordBatch) -> Iterable[bytes]:
    """Each record's several labels, and its further columns, as its Example has them."""
    values: list[Iterable[bytes]] = []
    if batch.schema.get_field_index("labels") >= 0:
        values.append(_packed_lists(batch.column("labels")))
    columns = _further_columns(batch.schema)
    values += [map(column.encode, batch.column(column.name).to_pylist()) for column in columns]
    return map(b"".join, zip(*values, strict=True)) if values else [b""] * len(batch)


def _buffers(column: pa.Array, dtype: str) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """The numbers of a column, and 1 for each that is not null, else 0."""
    import numpy as np

    valid, values = column.buffers()
    rows = slice(column.offset, column.offset + len(column))
    if valid is None:
        known = np.ones(len(column), np.uint8)
    else:
        known = np.unpackbits(np.frombuffer(valid, np.uint8), count=rows.stop, bitorder="little")[rows]
    if values is None:
        return np.zeros(len(column), dtype), known
    return np.frombuffer(values, dtype, rows.stop)[rows], known


def _packed(column: pa.StringArray) -> Sequence[bytes]:
    """Each text as its length and bytes, a null as an empty one; equal texts are packed once."""
    texts = [text or "" for text in column.to_pylist()]
    packed = {text: _length(len(text.encode())) + text.encode() for text in set(texts)}
    return [packed[text] for text in texts]


def _packed_lists(column: pa.ListArray) -> Sequence[bytes]:
    """Each list as its length and its texts; equal lists are packed once."""
    packed: dict[tuple[str, ...], bytes] = {(): _length(0)}
    if not len(column.values):
        return [packed[()]] * len(column)
    made = []
    for texts in map(tuple, column.to_pylist()):
        if texts not in packed:
            packed[texts] = _length(len(texts)) + b"".join(
                _length(len(text.encode())) + text.encode() for text in texts
            )
        made.append(packed[texts])
    return made


def _length(size: int) -> bytes:
    return size.to_bytes(4, "little")
