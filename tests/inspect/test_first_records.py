from __future__ import annotations

from pathlib import Path

import pytest

import shardfeed
from shardfeed.errors import DatasetError, UsageError
from shardfeed.inspection.first_records import StoredRecord, first_records
from tests.kit.datasets import CLASSES, Written, write_dataset
from tests.verify.damage import SHARD, flip, records


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return write_dataset(tmp_path / "out", splits={"test": 1, "train": 15})


@pytest.fixture
def out(written: Written) -> Path:
    return written.path


@pytest.mark.parametrize("n", [1, 5, 7, 1000])
def test_the_first_records_come_in_order_across_shards(written: Written, n: int) -> None:
    assert first_records(shardfeed.info(written.path), "train", n) == [
        StoredRecord(record.key, (record.label,), (CLASSES[record.label],), height=8, width=12, image=record.image)
        for record in written.records["train"][:n]
    ]


def test_fewer_than_one_record_is_refused(out: Path) -> None:
    with pytest.raises(UsageError, match="n=0: expected an integer of at least 1"):
        first_records(shardfeed.info(out), "train", 0)


def test_damage_is_named_with_file_and_byte_and_how_to_find_the_rest(out: Path) -> None:
    file = out / SHARD
    offset, _ = records(file)[2]
    flip(file, offset + 20)
    assert len(first_records(shardfeed.info(out), "train", 5)) == 5  # those of the shard before
    with pytest.raises(DatasetError) as caught:
        first_records(shardfeed.info(out), "train", 6)
    assert str(caught.value).startswith(f"{file} is damaged: record 2 at byte {offset}, key ")
    assert str(caught.value).endswith(f" shardfeed verify {out} --deep lists all damage.")


@pytest.mark.parametrize("field", [{"key": []}, {"label": [3]}, {"size": []}, {"image": []}])
def test_a_record_of_another_shape_is_damage(
    out: Path, monkeypatch: pytest.MonkeyPatch, field: dict[str, list[object]]
) -> None:
    whole = {"size": [8, 12], "key": [b"a/1.jpg"], "image": [b""], "class": [0], "label": [b"a"]}
    monkeypatch.setattr("shardfeed.inspection.first_records.decode_example", lambda data: whole | field)

    with pytest.raises(
        DatasetError, match=r"is damaged: record 0 at byte 0, .*expected a tf\.train\.Example of a build"
    ):
        first_records(shardfeed.info(out), "train", 1)
