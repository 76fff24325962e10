"""``--metadata`` and the flags beside it: the columns that a build takes, and their types."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.format.columns import RESERVED, TYPES, Column
from shardfeed.transforms.metadata.formats import format_of, found_types, is_mixed
from shardfeed.transforms.metadata.table import MetadataTable, is_text
from shardfeed.words import some_of

if TYPE_CHECKING:
    import pyarrow as pa

# Names of the column that names the image, in the order in which they are looked for. The first is
# Hugging Face's.
KEY_COLUMNS = ("file_name", "filename", "file_path", "filepath", "path", "image_path", "image", "key")
_COLUMN = re.compile(r"(?P<name>[^:=]+)(:(?P<type>[a-z0-9]+)(\[(?P<length>\d*)\])?)?(=(?P<default>.*))?", re.DOTALL)
_ONE: tuple[int | None, ...] = ()  # the shape of a column without lists
_LABEL = "--label_column "
_HOW = (
    "Give NAME, NAME:TYPE or NAME:TYPE=DEFAULT, separated by commas; types: "
    + ", ".join(TYPES)
    + ("; TYPE[] is a list, TYPE[3] one of three values")
)


@dataclass(frozen=True, slots=True)
class TableFlags:
    """What the user gave, as text. ``split``, ``group``: columns of --splits and --group_by."""

    metadata: Sequence[str] = ()
    label_column: str | None = None
    key_column: str | None = None
    key_format: str | None = None
    columns: str | None = None
    split: str | None = None
    group: str | None = None


def open_table(flags: TableFlags, *, label_from: str) -> MetadataTable | None:
    """The table of the flags, after a look at its head; None without ``--metadata``.

    Raises:
        UsageError: flags that do not fit together; a table or a column that cannot be used.
    """
    _check_flags(flags, label_from)
    if not flags.metadata:
        return None
    first, *others = (_open_one(metadata, flags) for metadata in flags.metadata)
    for other in others:
        if (first.many_labels, first.columns) != (other.many_labels, other.columns):
            one, two = (_taken(table) for table in (first, other))
            raise UsageError(
                f"--metadata {clip(first.url)} and {clip(other.url)} differ in the types of their columns: {one}; and {two}. "
                "Declare the types with --columns NAME:TYPE, or correct a table."
            )
    return replace(first, more=tuple(others))


def below_roots(table: MetadataTable, roots: Sequence[str]) -> MetadataTable:
    """The table and what is behind it, for inputs at these addresses.

    Of several tables each names images by their paths below its own folder.

    Raises:
        UsageError: one of several tables does not lie in an input.
    """
    if not table.more:
        return replace(table, roots=tuple(roots))
    first, *others = (
        replace(one, roots=tuple(roots), folder=_folder_of(one.url, roots), more=()) for one in (table, *table.more)
    )
    return replace(first, more=tuple(others))


def _folder_of(url: str, roots: Sequence[str]) -> str:
    folder = (url if storage.is_remote(url) else os.path.realpath(url)).rpartition("/")[0] + "/"
    for root in roots:
        if folder.startswith(root.rstrip("/") + "/"):
            return folder.removeprefix(root.rstrip("/") + "/")
    raise UsageError(
        f"--metadata {clip(url)} does not lie below --input. If several tables are given, each names its images by their paths "
        "below its own folder. Put it there, or make one table of all."
    )


def _taken(table: MetadataTable) -> str:
    taken = [f"{column.name}:{column.type}" + "[]" * bool(column.shape) for column in table.columns]
    labels = f"{table.label}{' with lists' * table.many_labels}"
    return ", ".join([labels, *taken] if table.label else taken)


def _open_one(metadata: str, flags: TableFlags) -> MetadataTable:
    remote = storage.is_remote(metadata)
    url = metadata if remote else os.path.abspath(os.path.expanduser(metadata))
    if remote:
        storage.check_address(url, "dataset")
    format_of(url)
    found = found_types(url)
    types = dict(found)
    key = flags.key_column or next((name for name in KEY_COLUMNS if name in types and is_text(types[name])), None)
    if key is None:
        raise UsageError(
            f"--metadata {clip(url)} has no column of text that is called {', '.join(KEY_COLUMNS[:-1])} or {KEY_COLUMNS[-1]}. "
            f"Name the column that names the image: --key_column NAME. Its columns: {_some(types)}"
        )
    twice = {name for name, count in Counter(name for name, _ in found).items() if count > 1}
    asked = {
        "--key_column ": key,
        _LABEL: flags.label_column,
        "--splits column:": flags.split,
        "--group_by column:": flags.group,
    }
    wanted = _parse_columns(flags.columns or "")
    for flag, name in [*asked.items(), *(("--columns ", name) for name, _ in wanted)]:
        if name is not None and name not in types:
            raise UsageError(
                f"{flag}{clip(name)}: --metadata {clip(url)} has no such column. Its columns: {_some(types)}"
            )
        if name in twice:
            raise UsageError(
                f"{flag}{clip(name)}: --metadata {clip(url)} has this column twice. Rename one in the table."
            )
    many = flags.label_column is not None and _is_list(types[flags.label_column])
    for flag, name in asked.items():
        if name is not None and not (flag == _LABEL and many):
            _require_text(url, flag, name, types[name])
    return MetadataTable(
        url=url,
        key=key,
        key_format=flags.key_format or "{}",
        label=flags.label_column,
        many_labels=many,
        split=flags.split,
        group=flags.group,
        columns=tuple(
            sorted((_column(url, said, types[name]) for name, said in wanted), key=lambda c: c.name.encode())
        ),
    )


def _check_flags(flags: TableFlags, label_from: str) -> None:
    given = {
        "label_column": flags.label_column,
        "key_column": flags.key_column,
        "key_format": flags.key_format,
        "columns": flags.columns,
        "splits column:": flags.split,
        "group_by column:": flags.group,
    }
    if not flags.metadata:
        if flags_given := [f"--{name}" for name, value in given.items() if value is not None]:
            raise UsageError(f"{flags_given[0]} needs --metadata TABLE, which holds the column.")
        if label_from == "table":
            raise UsageError("--label_from table needs --metadata TABLE and --label_column NAME.")
        return
    if not all(flags.metadata):
        raise UsageError("--metadata is empty. Give a CSV, JSON Lines or Parquet file.")
    if (label_from == "table") != (flags.label_column is not None):
        raise UsageError("--label_from table and --label_column NAME belong together: give both, or neither.")
    if not any((flags.label_column, flags.columns, flags.split, flags.group)):
        raise UsageError(
            "--metadata is given, but nothing of it is used. Give --label_from table --label_column NAME, --columns NAMES, "
            "--splits column:NAME or --group_by column:NAME."
        )
    if flags.key_format is not None and flags.key_format.count("{}") != 1:
        raise UsageError(
            f"--key_format {clip(flags.key_format)}: write {{}} once, where the value of the key column stands: 'train/{{}}.jpg'"
        )


def _parse_columns(text: str) -> list[tuple[str, re.Match[str]]]:
    parsed = []
    for item in text.split(",") if text else []:
        match = _COLUMN.fullmatch(item)
        if match is None or match["type"] not in (None, *TYPES) or match["length"] == "0":
            raise UsageError(f"--columns {clip(text)}: {clip(item)!r} is no column. {_HOW}.")
        if (ours := match["name"].casefold()) in RESERVED:
            raise UsageError(
                f"--columns {clip(text)}: records and their table have a field {ours} of their own. Rename the column in the "
                "table, or leave it out."
            )
        parsed.append((match["name"], match))
    if len({name.casefold() for name, _ in parsed}) < len(parsed):
        raise UsageError(
            f"--columns {clip(text)}: a column is named twice (case does not count). Name each once, or rename one in the table."
        )
    return parsed


def _column(url: str, said: re.Match[str], found: pa.DataType) -> Column:
    name = said["name"]
    if is_mixed(found):
        raise UsageError(
            f"--columns {clip(name)}: in --metadata {clip(url)} it {_what(found)}. Give values of one type."
        )
    if _is_nested(found):
        raise UsageError(
            f"--columns {clip(name)}: in --metadata {clip(url)} it is of type {clip(found)}, and a column holds values or lists "
            "of values. Write each of its fields as a column of the table, or leave it out of --columns."
        )
    if said["type"] is None:
        kind, shape = _guess(url, name, found)
    else:
        kind, shape = said["type"], _ONE
        if said["length"] is not None:
            shape = (int(said["length"]) if said["length"] else None,)
        if _is_list(found) != bool(shape) and not _is_null(found):
            what = "holds lists" if _is_list(found) else "holds no lists (JSON Lines and Parquet can)"
            raise UsageError(f"--columns {clip(said[0])}: the column in --metadata {clip(url)} {what}. {_HOW}.")
    return Column(name, kind, shape, None if said["default"] is None else _default(said, kind, shape))


def _default(said: re.Match[str], kind: str, shape: tuple[int | None, ...]) -> Any:
    text = said["default"]
    if shape:
        if text or shape != (None,):
            raise UsageError(
                f"--columns {clip(said[0])}: lists of any length may have the empty default NAME:TYPE[]=, others none."
            )
        return []
    parse: Mapping[str, Any] = {
        "string": str,
        "int64": int,
        "float": float,
        "bool": {"true": True, "false": False}.__getitem__,
    }
    try:
        value = parse[kind](text)
        if kind == "float" and not math.isfinite(value):
            raise ValueError  # JSON knows no others
        Column(said["name"], kind, shape, value).encode(value)
    except (ValueError, KeyError):
        what = f"the default is no {kind}" + ", finite and of 32 bits" * (kind == "float")
        what = "there is none for bytes" if kind == "bytes" else what
        raise UsageError(f"--columns {clip(said[0])}: {what}. Give one of its type, or leave it out.") from None
    return value


def _guess(url: str, name: str, found: pa.DataType) -> tuple[str, tuple[int | None, ...]]:
    import pyarrow as pa

    kind, shape, t = found, _ONE, pa.types
    if t.is_fixed_size_list(kind):
        kind, shape = kind.value_type, (kind.list_size,)
    elif _is_list(kind):
        kind, shape = kind.value_type, (None,)
    if t.is_dictionary(kind):
        kind = kind.value_type
    guesses: Sequence[tuple[str, Any]] = (
        ("bool", t.is_boolean),
        ("int64", t.is_integer),
        ("float", t.is_floating),
        ("string", t.is_string),
        ("string", t.is_large_string),
        ("bytes", t.is_binary),
        ("bytes", t.is_large_binary),
    )
    for guess, check in guesses:
        if check(kind) and not (guess == "bytes" and format_of(url) == "csv"):
            return guess, shape
    if format_of(url) == "csv" and not t.is_null(kind) and not t.is_binary(kind):  # dates and times are text there
        return "string", shape
    why = "has no value at its beginning" if t.is_null(kind) else f"is of type {found}"
    if t.is_binary(kind):
        raise UsageError(
            f"--columns {clip(name)}: in --metadata {clip(url)} it is not UTF-8 text. Convert the file to UTF-8, or declare the "
            f"column as bytes: {clip(name)}:bytes. {_HOW}."
        )
    raise UsageError(
        f"--columns {clip(name)}: in --metadata {clip(url)} it {why}. Declare its type: {clip(name)}:string. {_HOW}."
    )


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_nested(kind: pa.DataType) -> bool:
    """Whether the values are structs, maps or lists of lists."""
    import pyarrow as pa

    return bool(pa.types.is_nested(kind.value_type if _is_list(kind) else kind))


def _is_null(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_null(kind))


def _require_text(url: str, flag: str, name: str, kind: pa.DataType) -> None:
    import pyarrow as pa

    said = f"{flag}{clip(name)}: in --metadata {clip(url)} it"
    if format_of(url) != "csv" and not is_text(kind):
        raise UsageError(
            f"{said} {_what(kind)}. Allowed are text, integers and bools"
            f"{'; for several labels per image, lists of these' * (flag == _LABEL)}."
        )
    if flag == _LABEL and pa.types.is_floating(kind):  # pandas writes 1.0 for 1 if a cell of the column is empty
        raise UsageError(
            f"{said} holds numbers with a point, and each would be a class. Allowed are text, whole numbers, true and false: "
            "write 1 for 1.0. If they are names, give the table as Parquet with a column of text."
        )


def _what(kind: pa.DataType) -> str:
    return "holds values of several types" if is_mixed(kind) else f"is of type {kind}"


def _some(names: Mapping[str, Any]) -> str:
    return some_of([clip(name, 40) for name in names], 20)
