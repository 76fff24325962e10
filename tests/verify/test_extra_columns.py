"""``verify --deep`` holds each record, and its row of the record table, to the columns of the manifest."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardfeed
from shardfeed.format.columns import Column
from shardfeed.format.example import Value
from shardfeed.format.manifest import ImageInfo
from shardfeed.format.record_table import table_value
from shardfeed.testing import write_dataset
from shardfeed.verification.report import Report


def report(out: Path, column: Column, ages: Sequence[Value], table: Sequence[Any] | None) -> Report:
    """Verifies a dataset whose records hold ``ages`` and whose record table holds ``table``; None: no such column."""
    records: list[dict[str, Value]] = [
        {"image": bytes(12), "key": b"%d.png" % number, "size": [2, 2], "class": 0, "label": b"cat", "age": age}
        for number, age in enumerate(ages)
    ]
    image = ImageInfo(2, 2, 3, "raw", (0.0,) * 3, (1.0,) * 3)
    manifest = write_dataset(
        out, {"train": records}, image=image, classes=("cat",), shards=1, fingerprint="ab" * 16, config={}
    )
    (entry,) = manifest.tables
    if table is not None:
        rows = pq.read_table(out / entry.file)
        pq.write_table(rows.append_column(column.name, pa.array(list(table), column.arrow_type())), out / entry.file)
    count, digest = table_value(io.BytesIO((out / entry.file).read_bytes()))
    entry = replace(entry, rows=count, digest=f"{digest:032x}")
    changed = replace(manifest, columns=(column.to_raw(),), tables=(entry,))
    (out / "manifest.json").write_bytes(changed.to_json())
    return shardfeed.verify(out, deep=True)


@pytest.mark.parametrize(
    ("column", "table", "found"),
    [
        (Column("age", "int64"), [7], ""),
        (Column("age", "int64", (None,)), [[7]], ""),
        (Column("age", "bool"), [True], ""),
        (Column("age", "string"), ["7"], "column age: expected 1 of bytes, found 1 of int"),
        (Column("age", "int64", (2,)), [[7, 7]], "column age: expected 2 of int, found 1 of int"),
        (Column("weather", "string"), ["fair"], "columns: expected class, image, key, label, size, weather, found age, class"),
    ],
    ids=str,
)  # fmt: skip
def test_a_record_has_the_declared_columns(tmp_path: Path, column: Column, table: list[Any], found: str) -> None:
    age = 1 if column.type == "bool" else 7
    seen = report(tmp_path, column, [age], table)
    assert (str(seen.findings[0]) if found else "").find(found) >= 0
    assert bool(seen) == (not found), str(seen)


@pytest.mark.parametrize(
    ("column", "ages", "table", "expected", "found"),
    [
        (Column("age", "int64"), [7, 8, 9], [7, 8, 10], "the value as in the shard", "10"),
        (Column("age", "float"), [0.0, 0.5, 1.5], [0.0, 0.5, 2.5], "the value as in the shard", "2.5"),
        (Column("age", "string"), [b"a", b"b", b"\xff"], ["a", "b", "c"], "the value as in the shard", "c"),
        (Column("age", "int64", (None,)), [[1, 2], [3], [4, 5]], [[1, 2], [3], [4]], "the value as in the shard", "[4]"),
        (Column("age", "int64", (2,)), [[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [6, 5]], "the value as in the shard", "[6, 5]"),
        (Column("age", "int64"), [7, 8, 9], None, "a record table of 3 rows", "it has no column age of int64"),
    ],
    ids=["a number", "a float", "text that is none", "a list", "a list of two", "no column"],
)  # fmt: skip
def test_a_value_of_the_table_that_is_not_the_records_is_found(
    tmp_path: Path, column: Column, ages: list[Value], table: list[Any] | None, expected: str, found: str
) -> None:
    (finding,) = report(tmp_path, column, ages, table).findings
    what = "table" if table is None else "row 2: column age"
    assert (finding.what, finding.expected, finding.found) == (what, expected, found)
    assert finding.file.endswith(".parquet")
