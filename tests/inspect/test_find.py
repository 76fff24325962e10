"""``find`` as a function: which records it finds, and tables that are absent or damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import shardfeed
from shardfeed.errors import DatasetError, UsageError
from shardfeed.format import record_table
from shardfeed.inspection.find import RecordRow, find, stored_records
from shardfeed.inspection.first_records import StoredRecord
from tests.golden.test_golden_dataset import DATASETS
from tests.kit.datasets import CLASSES, Written, write_dataset
from tests.verify.damage import TABLE, flip, records
from tests.verify.test_verification_of_tables_and_indexes import change_table, with_value


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Images of three heights; three shards of train of five records, three of test of one."""
    return write_dataset(tmp_path / "out", splits={"test": 3, "train": 15}, size=None)


def found(written: Written, where: str, *splits: str, most: int = 1000) -> list[RecordRow]:
    info = shardfeed.info(written.path)
    return [row for hits in find(info, where, [info.splits[name] for name in splits]) for row in hits.rows(most)]


def expected(written: Written, split: str, number: int) -> dict[str, Any]:
    """The row of a record."""
    record, (shard, inside) = written.records[split][number], divmod(number, {"test": 1, "train": 5}[split])
    file, (height, width, _) = f"{split}-{shard:05d}-of-00003.tfrecord", record.pixels.shape
    offset, size = records(written.path / file)[inside]
    return {
        "split": split, "file": file, "number": number, "key": record.key.decode(), "label": CLASSES[record.label],
        "class": record.label, "offset": offset, "bytes": size, "height": height, "width": width, "format": "jpeg",
        "root": 0, "source_bytes": len(record.image), "version": 0, "crc32c": None, "fixes": [], "hash": None,
        "duplicate_group": None,
    }  # fmt: skip


@pytest.mark.parametrize("rows", [65_536, 2], ids=["whole tables", "row groups of two"])
def test_the_hits_are_the_records_in_their_order_with_all_columns(
    written: Written, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_table, "ROW_GROUP", rows)
    wanted = [
        expected(written, split, number)
        for split in ("test", "train")
        for number, record in enumerate(written.records[split])
        if CLASSES[record.label] != "rose" and record.pixels.shape[0] > 8
    ]
    assert len(wanted) == 9
    assert found(written, "label <> 'rose' and height > 8", "test", "train") == wanted


@pytest.mark.parametrize(
    ("split", "numbers"),
    [("train[3:12]", range(3, 12)), ("train[:10%]", range(2)), ("train[5:6]", [5]), ("train[-1:]", [14])],
)
def test_in_a_part_of_a_split_numbers_stay_those_of_the_split(
    written: Written, split: str, numbers: range | list[int]
) -> None:
    assert found(written, "1", split) == [expected(written, "train", number) for number in numbers]
    assert found(written, "number % 2 = 1", split) == [expected(written, "train", n) for n in numbers if n % 2]


def test_only_as_many_rows_as_wanted_are_made(written: Written) -> None:
    wanted = [expected(written, "train", number) for number in (0, 1, 5, 6, 10, 11)]
    assert found(written, "1", "train", most=2) == wanted
    assert found(written, "1", "train", most=0) == []


def test_the_records_of_hits_are_read_with_their_images(written: Written) -> None:
    rows = found(written, "number in (1, 2, 14)", "test", "train")
    wanted = [("test", 1), ("test", 2), ("train", 1), ("train", 2), ("train", 14)]
    assert [(row["split"], row["number"]) for row in rows] == wanted
    assert stored_records(shardfeed.info(written.path), rows) == [
        StoredRecord(one.key, (one.label,), (CLASSES[one.label],), one.pixels.shape[0], one.pixels.shape[1], one.image)
        for one in (written.records[split][number] for split, number in wanted)
    ]


def test_a_hit_whose_table_names_another_key_is_damage(written: Written) -> None:
    change_table(written.path, with_value("key", 2, "other.jpg"), manifest=True)
    rows = found(written, "key = 'other.jpg'", "train")
    with pytest.raises(DatasetError) as damaged:
        stored_records(shardfeed.info(written.path), rows)
    key = written.records["train"][7].key.decode()
    assert str(damaged.value) == error(written, f"record 7 of train has the key {key}, and its row other.jpg")


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda out: (out / TABLE).unlink(), "it is not there"),
        (lambda out: flip(out / TABLE, 0), "it does not begin with b'PAR1'"),
        (
            lambda out: change_table(out, lambda table: pa.concat_tables([table, table])),
            "it has 10 rows, and train-00001-of-00003.tfrecord has 5 records",
        ),
        (lambda out: change_table(out, lambda table: table.drop_columns(["root"])), "it has no column root of int32"),
        (lambda out: change_table(out, with_value("width", 1, None)), "a value of column width is null"),
        (
            lambda out: change_table(out, with_value("fixes", 1, ["alpha"])),
            "its rows have the digest {found}, in the manifest it is {digest}",
        ),
    ],
    ids=["missing", "another beginning", "too many rows", "a column missing", "a null", "another value"],
)
def test_a_damaged_table_is_named_after_the_hits_before_it(
    written: Written, damage: Callable[[Path], None], what: str
) -> None:
    damage(written.path)
    info = shardfeed.info(written.path)
    if "{digest}" in what:
        digest = next(table.digest for table in info.manifest.tables if table.file == TABLE)
        with open(written.path / TABLE, "rb") as file:
            what = what.format(digest=digest, found=f"{record_table.table_value(file)[1]:032x}")
    assert found(written, "number > 2", "train[:5]") == [expected(written, "train", number) for number in (3, 4)]
    rows: list[RecordRow] = []
    with pytest.raises(DatasetError) as damaged:
        for hits in find(info, "number in (4, 14)", [info.splits["train"]]):
            rows += hits.rows(1000)
    assert rows == [expected(written, "train", 4)]
    assert str(damaged.value) == error(written, what)


def error(written: Written, what: str) -> str:
    out = written.path
    return (
        f"{out}/{TABLE} is damaged: {what}. Restore {TABLE} from a copy, or delete {out} and build again. "
        f"shardfeed verify {out} --deep lists all damage."
    )


def test_a_dataset_of_version_1_has_no_tables() -> None:
    info = shardfeed.info(DATASETS[1])
    with pytest.raises(UsageError) as refused:
        find(info, "1", [info.splits["train"]])
    assert str(refused.value) == (
        f"the dataset at {info.url} has no record table for train-00000-of-00003.tfrecord: its schema_version is 1, and "
        "builds write tables since 2. Build the dataset again to have them."
    )


def test_a_hash_is_hex(written: Written) -> None:
    change_table(written.path, with_value("hash", 0, 2**63 + 11), manifest=True)
    (row,) = found(written, "hash = '800000000000000b'", "train")
    assert row["hash"] == "800000000000000b"
    assert row["number"] == 5
