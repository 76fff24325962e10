"""A condition in SQL on the columns of a record, applied by SQLite.

SQLite comes with Python, and a condition means the same on every machine. Each row group is put
into a table in memory, of which only the columns that the condition reads are filled. The
authorizer names these columns, and allows nothing but reading and functions.

That a text is one whole condition is proved by two statements, both of which must be right SQL:
``WHERE (text)`` and ``CASE WHEN text THEN``. ``1) or (1`` breaks the second, ``1 THEN 2`` the
first.

The table has a name that a condition does not know, and only its alias ``records`` is public. So
``(select max(width) from records)`` is an error, not the maximum of one row group.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import sqlite3
import weakref
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from shardfeed.errors import UsageError, clip
from shardfeed.format.columns import Column
from shardfeed.format.record_table import schema

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = '"rows of one group"'
_SELECT = f"SELECT number FROM {_TABLE} AS records WHERE ("
_FORMS = ((_SELECT, "\n)"), ("SELECT CASE WHEN ", f"\n THEN 1 END FROM {_TABLE} AS records"))
_READABLE = (_TABLE.strip('"'), "json_each", "json_tree")
_ACTIONS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, 31)  # 31: SQLITE_FUNCTION, which Python does not name
# SQLite's integers are int64: a uint64 is shown in hex, as are bytes.
_KINDS = {"int32": "INTEGER", "int64": "INTEGER", "uint32": "INTEGER", "bool": "INTEGER", "float": "REAL"}
# Texts, names and comments of SQL, each whole, so that a quote inside one is not taken for another.
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL
)
_NO_COLUMN = re.compile("no such column: (.*)")


def column_types(label_kind: str, columns: Sequence[Column]) -> dict[str, str]:
    """SQLite's type of each column that a condition can name; arguments as in the manifest.

    ``label`` and ``class`` are left out unless records have one label each: they are null then, and
    ``label = 'hat'`` would find nothing and say nothing.
    """
    kinds = {field.name: _KINDS.get(str(field.type), "TEXT") for field in schema(columns, label_kind)}
    if label_kind != "single":
        del kinds["label"], kinds["class"]
    return {"split": "TEXT", "file": "TEXT", "number": "INTEGER PRIMARY KEY", **kinds}


class Condition:
    """A condition on one record, such as ``label = 'skirt' and width > 400``.

    ``label_kind``, ``columns``: of the dataset, as in its manifest.

    Raises:
        UsageError: ``where`` is not one, or names an unknown column.
    """

    def __init__(self, where: str, label_kind: str = "single", columns: Sequence[Column] = ()) -> None:
        self._where = where
        self._sql = _QUOTED.sub(_named, where)
        self._types = types = column_types(label_kind, columns)
        try:
            self._columns = _columns_read(self._sql, types)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: a text that is not UTF-8
            raise self._wrong(error) from None
        self._database = _database({name: types[name] for name in self._columns})
        weakref.finalize(self, self._database.close)  # Python 3.13 warns of a database that nobody closes

    def matches(self, split: str, file: str, first: int, batch: pa.RecordBatch) -> list[int]:
        """Numbers of the rows of ``batch`` that fulfil it; the first row has the number ``first``.

        Raises:
            UsageError: SQLite cannot compute it for one of the rows.
        """
        numbers = range(first, first + len(batch))
        constant = {"split": split, "file": file}
        values = [
            numbers if name == "number" else [constant[name]] * len(batch) if name in constant else _values(batch, name)
            for name in self._columns
        ]
        marks = ", ".join("?" * len(values))
        self._database.execute(f"DELETE FROM {_TABLE}")
        self._database.executemany(f"INSERT INTO {_TABLE} VALUES ({marks})", zip(*values, strict=True))
        try:
            found = self._database.execute(f"{_SELECT}{self._sql}\n) ORDER BY number").fetchall()
        except sqlite3.Error as error:
            raise self._wrong(error) from None
        return [number for (number,) in found]

    def _wrong(self, error: Exception) -> UsageError:
        said = f"--where {clip(self._where)}"
        unknown = _NO_COLUMN.fullmatch(str(error))
        if unknown is None:
            what = clip(error).rstrip(".") if self._where.strip() else "nothing is asked"
            return UsageError(
                f"{said}: {what}. Expected an SQL expression on one record, for example label = 'skirt' and width > 400. "
                "To count, group or compare records, ask another SQL engine, such as DuckDB, about the tables of the dataset."
            )
        name, columns = unknown[1], list(self._types)
        near = difflib.get_close_matches(name.rpartition(".")[2].lower(), columns, n=1, cutoff=0.75)
        return UsageError(
            f"{said}: no column {clip(name)}{f'; did you mean {near[0]}?' if near else '.'} The columns are "
            f"{', '.join(columns)}. A text stands in single quotes: '{clip(name)}'."
        )


def _named(token: re.Match[str]) -> str:
    """A name in double quotes as one in backquotes.

    SQLite takes an unknown name in double quotes for a text, and ``"widht" > 400`` is then true.
    """
    text = token[0]
    return "`" + text[1:-1].replace('""', '"').replace("`", "``") + "`" if text.startswith('"') else text


def _columns_read(sql: str, types: dict[str, str]) -> list[str]:
    """The columns that a condition reads, and ``number``, in the order of ``types``."""
    read = set()

    def authorize(action: int, table: str | None, column: str | None, _database: object, _trigger: object) -> int:
        if action not in _ACTIONS or (action == sqlite3.SQLITE_READ and table not in _READABLE):
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_READ and table == _READABLE[0]:
            read.add(column)
        return sqlite3.SQLITE_OK

    with closing(_database(types)) as database:
        database.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")  # SQLite makes these two at their first use
        database.set_authorizer(authorize)
        for before, behind in _FORMS:
            database.execute(before + sql + behind)
    return [name for name in types if name in read]


def _database(types: dict[str, str]) -> sqlite3.Connection:
    """A database in memory with an empty table of these columns."""
    # Another thread may collect the garbage, and close it.
    database = sqlite3.connect(":memory:", check_same_thread=False)
    columns = ", ".join('"{}" {}'.format(name.replace('"', '""'), kind) for name, kind in types.items())
    database.execute(f"CREATE TABLE {_TABLE} ({columns})")
    return database


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column as SQLite has it: lists as JSON."""
    values = plain_values(batch, name)
    if batch.schema.field(name).type.num_fields:  # a list
        return [json.dumps(finite(value), ensure_ascii=False) for value in values]
    return values


def finite(value: Any) -> Any:
    """A value or a list for JSON, which has no NaN and no infinity: they are null."""
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_values(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column as Python has it; a hash and bytes as hex digits."""
    values: list[Any] = batch.column(name).to_pylist()
    if "binary" in str(batch.schema.field(name).type):
        return [[each.hex() for each in value] if isinstance(value, list) else value.hex() for value in values]
    if str(batch.schema.field(name).type) == "uint64":
        return [None if value is None else f"{value:016x}" for value in values]
    return values
