"""Tables and mapped indexes that are missing, torn, or disagree with their shard."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardfeed
from shardfeed.format.record_index import INDEX_HEADER_BYTES, IndexHeader
from shardfeed.format.record_table import table_value
from shardfeed.verification.dataset import verify
from shardfeed.verification.report import rebuild, restore
from tests.golden.test_golden_dataset import DATASETS
from tests.verify.damage import INDEX, SHARD, TABLE, append, change_file, change_manifest, columns, cut, flip, records

FIRST = 5  # number of the shard's first record among those of its split


def found(out: Path) -> list[tuple[str, int | None, str, str, str]]:
    findings = verify(out, deep=True).findings
    for finding in findings:
        assert finding.remedy in (restore(finding.file, str(out)), rebuild(str(out)))
    return [(f.file, f.offset, f.what, f.expected, f.found) for f in findings]


def test_a_manifest_that_does_not_name_them_is_found(out: Path) -> None:
    manifest = shardfeed.info(out).manifest
    change_manifest(
        out,
        tables=tuple(table for table in manifest.tables if table.file != TABLE),
        files=tuple(file for file in manifest.files if file.file not in (INDEX, "train.classes")),
    )
    for name in (TABLE, "train.classes"):
        (out / name).unlink()
    findings = verify(out).findings
    assert [(finding.file, finding.what, finding.expected, finding.found) for finding in findings] == [
        ("manifest.json", "files", f"an entry for {INDEX}", "none"),
        ("manifest.json", "tables", f"an entry for {TABLE}", "none"),
        ("manifest.json", "files", "an entry for train.classes", "none"),
        (INDEX, "foreign file", "only files that the manifest names", "another"),
    ]
    assert findings[0].remedy == rebuild(str(out))


def test_a_dataset_of_version_1_is_in_order_without_them() -> None:
    assert verify(DATASETS[1], deep=True).ok


@pytest.mark.parametrize(("column", "at", "item"), [("offset", "train.index", 8), ("class", "train.classes", 4)])
def test_a_number_of_an_index_that_is_not_the_shards_is_found_with_its_record(
    out: Path, column: str, at: str, item: int
) -> None:
    place = INDEX_HEADER_BYTES + (FIRST + 3) * item
    expected = {"offset": records(out / SHARD)[3][0], "class": columns(out, SHARD)[3]["class"]}[column]
    flip(out / at, place)
    shown = f"{expected} as in the shard", str(expected ^ 0x10)
    assert found(out) == [(at, place, f"record {FIRST + 3}: {column}", *shown)]


@pytest.mark.parametrize("name", ["train.index", "train.classes"])
def test_a_torn_index_is_found(out: Path, name: str) -> None:
    size = (out / name).stat().st_size
    cut(out / name, size - 12)
    assert found(out) == [(name, size - 12, "size", f"{size} bytes", f"{size - 12} bytes")]


def test_an_index_that_was_published_too_short_is_found(out: Path) -> None:
    change_file(out, "train.index", (out / "train.index").read_bytes()[:-8])
    assert found(out) == [("train.index", None, "size", "184 bytes for 15 records", "176 bytes")]


@pytest.mark.parametrize(
    ("change", "expected", "saw"),
    [
        ({"fingerprint": "ab" * 16}, "fingerprint 0123456789abcdef", "fingerprint abababab"),
        ({"records": 16}, "15 records", "16 records"),
        ({"shards": 2}, "3 shards", "2 shards"),
        ({"crc32c": 7}, "00000007", ""),
    ],
    ids=str,
)
def test_the_header_of_another_dataset_is_found(out: Path, change: dict[str, Any], expected: str, saw: str) -> None:
    data = (out / "train.index").read_bytes()
    header = IndexHeader("offsets", "0123456789abcdef" * 2, 15, 3, int.from_bytes(data[44:48], "little"))
    assert header.to_bytes() == data[:INDEX_HEADER_BYTES]
    change_file(out, "train.index", replace(header, **change).to_bytes() + data[INDEX_HEADER_BYTES:])
    ((file, offset, what, wanted, seen),) = found(out)
    place, header_of = (INDEX_HEADER_BYTES, "crc32c of the column") if "crc32c" in change else (0, "header")
    assert (file, offset, what) == ("train.index", place, header_of)
    assert expected in wanted and saw in seen


def change_table(out: Path, change: Callable[[pa.Table], pa.Table], *, manifest: bool = False) -> None:
    """Other rows in ``TABLE``; ``manifest``: with an entry that fits them."""
    data = io.BytesIO()
    pq.write_table(change(pq.read_table(out / TABLE)), data)
    (out / TABLE).write_bytes(data.getvalue())
    if manifest:
        rows, digest = table_value(io.BytesIO(data.getvalue()))
        tables = {table.file: table for table in shardfeed.info(out).manifest.tables}
        tables[TABLE] = replace(tables[TABLE], rows=rows, digest=f"{digest:032x}")
        change_manifest(out, tables=tuple(tables.values()))


def with_value(name: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        values = table.column(at).to_pylist()
        values[row] = value
        return table.set_column(at, name, pa.array(values, table.schema.field(at).type))

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key", "train/rose/other.jpg"), ("label", "other"), ("class", 9), ("offset", 1), ("bytes", 2), ("height", 3),
        ("width", 4), ("format", "png"),
    ],
)  # fmt: skip
def test_a_row_that_is_not_the_shards_is_found(out: Path, name: str, value: Any) -> None:
    expected = pq.read_table(out / TABLE).column(name).to_pylist()[3]
    change_table(out, with_value(name, 3, value), manifest=True)
    wanted = "the key" if name == "key" else expected  # a shard's key is known by its hash
    assert found(out) == [(TABLE, None, f"row 3: {name}", f"{wanted} as in the shard", str(value))]


@pytest.mark.parametrize(
    ("name", "value"),
    [("root", 1), ("source_bytes", 1), ("version", 7), ("crc32c", 5), ("fixes", ["upscaled"]), ("hash", 0)],
)
def test_a_value_that_only_the_table_has_is_found_by_the_digest(out: Path, name: str, value: Any) -> None:
    digest = next(table.digest for table in shardfeed.info(out).manifest.tables if table.file == TABLE)
    change_table(out, with_value(name, 3, value))
    ((file, offset, what, wanted, saw),) = found(out)
    assert (file, offset, what, wanted) == (TABLE, None, "digest of the rows", digest) and saw != digest


@pytest.mark.parametrize(
    ("change", "what", "expected", "saw"),
    [
        (lambda table: table.slice(0, 4), "rows", "5 as the shard has records", "4"),
        (lambda table: pa.concat_tables([table, table]), "rows", "5 as the shard has records", "10"),
        (lambda table: table.drop_columns(["root"]), "table", "a record table of 5 rows", "it has no column root of int32"),
        (
            lambda table: table.set_column(8, "root", table.column("root").cast(pa.int64())),
            "table", "a record table of 5 rows", "it has no column root of int32",
        ),
        (with_value("key", 2, None), "table", "a record table of 5 rows", "a value of column key is null"),
        (with_value("fixes", 2, [None]), "table", "a record table of 5 rows", "a value of column fixes is null"),
    ],
    ids=["a row too few", "rows too many", "a column missing", "a column of another type", "no key", "no fix"],
)  # fmt: skip
def test_a_table_of_other_rows_or_columns_is_found(
    out: Path, change: Callable[[pa.Table], pa.Table], what: str, expected: str, saw: str
) -> None:
    change_table(out, change)
    assert found(out) == [(TABLE, None, what, expected, saw)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: cut(file, 0),
        lambda file: cut(file, 100),
        lambda file: flip(file, 0),
        lambda file: append(file, b"x"),
    ],
    ids=["empty", "cut", "another beginning", "more behind it"],
)
def test_a_damaged_table_is_found(out: Path, damage: Callable[[Path], None]) -> None:
    damage(out / TABLE)
    ((file, _, what, expected, _),) = found(out)
    assert (file, what, expected) == (TABLE, "table", "a record table of 5 rows")


def test_rows_in_another_order_are_not_the_shards(out: Path) -> None:
    before = table_value(io.BytesIO((out / TABLE).read_bytes()))
    change_table(out, lambda table: table.take([1, 0, 2, 3, 4]))
    assert table_value(io.BytesIO((out / TABLE).read_bytes())) == before
    assert [(file, what.split(":")[0]) for file, _, what, _, _ in found(out)] == [(TABLE, "row 0")]


def test_the_manifests_number_of_rows_is_compared(out: Path) -> None:
    tables = shardfeed.info(out).manifest.tables
    change_manifest(out, tables=tuple(replace(t, rows=6) if t.file == TABLE else t for t in tables))
    assert found(out) == [("manifest.json", None, f"rows of {TABLE}", "5 as in the file", "6")]


def test_a_table_that_another_pyarrow_wrote_is_in_order(out: Path) -> None:
    data = io.BytesIO()
    pq.write_table(pq.read_table(out / TABLE), data, compression="none", row_group_size=2, use_dictionary=False)
    (out / TABLE).write_bytes(data.getvalue())
    assert found(out) == []
