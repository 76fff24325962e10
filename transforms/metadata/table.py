"""The rows of a metadata table, each with the key of its image.

What a row is to a build is its ``pack_table_row``: label, split, group and the stored columns, and
nothing else of the table. Two rows are equal, and two tables give the same dataset, if these bytes
are the same: the file's format, its compression, its order and its other columns do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardfeed.errors import UsageError, clip
from shardfeed.format.columns import Column
from shardfeed.transforms.metadata.formats import format_of, read_table
from shardfeed.transforms.metadata.row import Row, pack_table_row

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """A table and what a build takes of it: names of columns, None for what it does not take.

    ``key_format``: what an image's key is, with ``{}`` for the value of ``key``. ``many_labels``:
    the label column holds lists. ``roots``: addresses of the inputs. ``folder``: what keys are
    below, "" or a path with a slash behind it. ``more``: further tables, of which the same is
    taken; each has its own ``key`` and ``folder``.
    """

    url: str
    key: str
    key_format: str = "{}"
    label: str | None = None
    many_labels: bool = False
    split: str | None = None
    group: str | None = None
    columns: tuple[Column, ...] = ()
    roots: tuple[str, ...] = ()
    folder: str = ""
    more: tuple[MetadataTable, ...] = ()


TableRow = tuple[int, bytes, bytes]
"""Number of a row (see ``row_name``), the key of its image, and the packed row."""

_TABLE_BITS = 40  # of a row's number, behind which the number of its table stands


def read_rows(table: MetadataTable) -> Iterator[TableRow]:
    """The rows of a table and of those behind it, in the order of the files.

    Raises:
        UsageError: a file cannot be read; a row without key or label; a value that does not fit.
    """
    for number, one in enumerate((table, *table.more)):
        for place, key, row in _read_rows(one):
            yield number << _TABLE_BITS | place, key, row


def row_name(number: int) -> str:
    """A row's number in its file as messages show it; which file, if it is not the first."""
    file, place = number >> _TABLE_BITS, number & ((1 << _TABLE_BITS) - 1)
    return f"{place:,} of table {file + 1}" if file else f"{place:,}"


def _read_rows(table: MetadataTable) -> Iterator[TableRow]:
    import pyarrow as pa

    is_csv = format_of(table.url) == "csv"
    texts = [name for name in (table.key, None if table.many_labels else table.label, table.split, table.group) if name]
    types: dict[str, pa.DataType | None] = dict.fromkeys(texts, pa.string() if is_csv else None)
    if table.many_labels and table.label:
        types[table.label] = None
    for column in table.columns:
        kind = _read_as(column)
        types[column.name] = kind if is_csv and types.get(column.name) is None else None
    for first, arrays in read_table(table.url, types):
        yield from _rows(table, first, arrays, empty_is_absent=is_csv)


def _rows(
    table: MetadataTable, first: int, arrays: dict[str, pa.Array], *, empty_is_absent: bool
) -> Iterator[TableRow]:
    count = len(arrays[table.key])
    keys = _texts(table, table.key, arrays)
    labels = _labels(table, arrays, count)
    splits = _texts(table, table.split, arrays) if table.split else [""] * count
    groups = _texts(table, table.group, arrays) if table.group else [""] * count
    features = [_features(table, column, arrays, first, empty_is_absent) for column in table.columns]
    names = [column.name for column in table.columns]
    for place, (key, label, split, group, *encoded) in enumerate(
        zip(keys, labels, splits, groups, *features, strict=True), first
    ):
        if not key:
            raise _wrong(table, place, table.key, "is empty, and it names the image", "Fill it in or remove the row.")
        if label is None or None in label or "" in label:
            raise _wrong(table, place, table.label, "is empty, and it is the label", "Fill it in or remove the row.")
        # The order of labels says nothing: equal sets are equal rows.
        row = Row(tuple(sorted(set(label))), split or "", group or "", tuple(zip(names, encoded, strict=True)))
        try:
            yield place, key_of(key, table), pack_table_row(row)
        except UnicodeEncodeError:
            raise _wrong(table, place, table.key, "holds text that is not Unicode", "Correct the row.") from None


def key_of(value: str, table: MetadataTable) -> bytes:
    """The key that a value of the key column means: below a root, or an address under one."""
    value = table.key_format.replace("{}", value)
    for root in table.roots:
        if value.startswith(root.rstrip("/") + "/"):
            value = value.removeprefix(root.rstrip("/") + "/")
            break
    else:
        while value.startswith("./"):
            value = value[2:].lstrip("/")
        value = table.folder + value
    return value.encode()


def _labels(table: MetadataTable, arrays: dict[str, pa.Array], count: int) -> Sequence[Sequence[str | None] | None]:
    if table.label is None:
        return [()] * count
    if not table.many_labels:
        return [None if text is None else (text,) for text in _texts(table, table.label, arrays)]
    import pyarrow as pa

    array = arrays[table.label]
    if pa.types.is_null(array.type):
        return [None] * count
    if not is_text(array.type.value_type):
        raise UsageError(
            f"--metadata {clip(table.url)}: column {clip(table.label)} holds lists of {array.type.value_type}. Labels are text, "
            "integers or bools."
        )
    return list(_cast(table, table.label, array, pa.list_(pa.string())).to_pylist())


def _texts(table: MetadataTable, name: str, arrays: dict[str, pa.Array]) -> list[str | None]:
    """Text, integers or bools as text."""
    import pyarrow as pa

    array = arrays[name]
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if not is_text(kind):
        raise UsageError(
            f"--metadata {clip(table.url)}: column {clip(name)} is of type {kind}. Keys, labels, splits and groups are text, "
            "integers or bools."
        )
    return list(_cast(table, name, array, pa.string()).to_pylist())


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type may be a key, a label, a split or a group."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    return any(check(kind) for check in checks)


def _features(
    table: MetadataTable, column: Column, arrays: dict[str, pa.Array], first: int, empty_is_absent: bool
) -> list[bytes]:
    if column.type == "bool":
        _refuse_numbers(table, column.name, arrays[column.name], first)
    values = _cast(table, column.name, arrays[column.name], _read_as(column)).to_pylist()
    absent = ("", b"") if empty_is_absent and column.default is not None else ()
    known: dict[Any, bytes] = {}  # few values recur in most columns
    encoded = []
    for place, value in enumerate(values, first):
        if value is None or (absent and value in absent):
            value = column.default
            if value is None:
                remedy = f"Fill it in, or give a default: --columns {column.name}={_EXAMPLES[column.type]}"
                raise _wrong(table, place, column.name, "is empty", remedy)
        try:
            if column.shape or column.type == "float":  # a list is no key, and -0.0 equals 0.0
                encoded.append(column.encode(value))
                continue
            feature = known.get(value)
            if feature is None:
                feature = column.encode(value)
                if len(known) < _RECURRING:
                    known[value] = feature
            encoded.append(feature)
        except ValueError as error:
            raise _wrong(table, place, column.name, f"holds {error}", "Correct it, or declare another type.") from None
    return encoded


def _refuse_numbers(table: MetadataTable, name: str, array: pa.Array, first: int) -> None:
    """Of numbers only 0 and 1 are bools; Arrow would take any other for true."""
    import pyarrow as pa

    kind = array.type.value_type if hasattr(array.type, "value_type") else array.type  # of a list or dictionary
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return
    for place, value in enumerate(array.to_pylist(), first):
        for item in value if isinstance(value, list) else [value]:
            if item not in (None, 0, 1):
                remedy = f"Write 0 or 1, or declare another type: --columns {clip(name)}:int64"
                raise _wrong(table, place, name, f"holds {item!r} where bool is expected", remedy)


_RECURRING = 1_000
_EXAMPLES = {"bytes": "", "string": "unknown", "int64": "0", "float": "0.0", "bool": "false"}


def _read_as(column: Column) -> pa.DataType:
    """Arrow's type for values of a column; floats are read with 64 bits, so that none overflows."""
    import pyarrow as pa

    if column.type == "float":
        return pa.list_(pa.field("element", pa.float64())) if column.shape else pa.float64()
    return column.arrow_type()


def _cast(table: MetadataTable, name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        other = "bytes" if pa.types.is_binary(array.type) else "string[]" if pa.types.is_list(array.type) else "string"
        raise UsageError(
            f"--metadata {clip(table.url)}: column {clip(name)} is of type {array.type}, and {kind} is wanted: {clip(error)}. "
            f"Correct the table, or declare another type: --columns {clip(name)}:{other}"
        ) from None


def _wrong(table: MetadataTable, number: int, name: str | None, what: str, remedy: str) -> UsageError:
    return UsageError(f"--metadata {clip(table.url)}: row {number:,}: column {clip(name)} {what}. {remedy}")
