"""Damage to a shard or an index is named: file, record, key, what was expected, and what to do."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import DatasetError
from shardfeed.format.checksums import crc32c
from shardfeed.format.record_index import INDEX_HEADER_BYTES, IndexHeader
from tests.kit.datasets import write_dataset
from tests.reader.damage import NUMBER, SHARD, flip, message, offset_of, place, rewrite, rewrite_image

FINGERPRINT = "0123456789abcdef" * 2
FIRST = 12  # number in the split of the shard's first record
COPY = "Copy the file from where the dataset is whole, or build the dataset again into an empty folder."
# An item, items, all items, a key, an iteration.
READS: list[Any] = [
    lambda ds: ds[FIRST + NUMBER],
    lambda ds: ds.__getitems__([FIRST + NUMBER]),
    lambda ds: ds.__getitems__(range(len(ds))),
    lambda ds: ds.keys[FIRST + NUMBER],
    list,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_dataset(tmp_path)
    return tmp_path


def refusal(read: Callable[[], Any]) -> str:
    with pytest.raises(DatasetError) as found:
        read()
    assert type(found.value) is DatasetError
    return str(found.value)


FIELDS = {
    "length": (0, "crc of the length: expected "),
    "crc of the length": (8, "crc of the length: expected "),
    "data": (60, "crc of the data: expected "),
    "crc of the data": (-1, "crc of the data: expected "),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_flipped_bit_in_each_field_of_a_record(path: Path, field: str) -> None:
    expected, ds = place(path, NUMBER), shardfeed.records(path, "train")
    at, what = FIELDS[field]
    flip(path, at + offset_of(path, NUMBER + (at < 0)))

    for read in READS:
        said = refusal(partial(read, ds))

        assert said.startswith(f"{path}/{SHARD} is damaged: {expected}: {what}")
        assert said.endswith(message(path, "").partition("is damaged: ")[2])


def test_the_other_records_of_a_damaged_block_are_read(path: Path) -> None:
    ds = shardfeed.records(path, "train")
    for at in [offset_of(path, NUMBER), offset_of(path, NUMBER + 1)]:
        flip(path, 60 + at)

    assert ds[FIRST + NUMBER - 1]["key"] and ds[FIRST + NUMBER + 2]["key"]
    assert f"is damaged: record {NUMBER + 1} at byte " in refusal(lambda: ds[FIRST + NUMBER + 1])


def test_an_image_that_does_not_decode(path: Path) -> None:
    rewrite_image(path, lambda image: image[:40])
    ds = shardfeed.records(path, "train")

    said = refusal(lambda: ds[FIRST + NUMBER])

    expected = "image: expected a jpeg image of 8 x 12 x 3 that decodes"
    assert said.startswith(f"{path}/{SHARD} is damaged: {place(path)}: {expected}")
    assert ds.keys[FIRST + NUMBER]


def test_a_class_that_is_not_the_indexed_one(path: Path) -> None:
    ds = shardfeed.records(path, "train")
    before = int(ds.labels[FIRST + NUMBER])
    rewrite(path, lambda row: {**row, "class": (before + 1) % 3})

    assert refusal(lambda: ds[FIRST + NUMBER]) == message(
        path, f"{place(path)}: class: expected {before} as in train.classes, found {(before + 1) % 3}"
    )


def test_a_damaged_index_of_classes_is_named_and_not_its_shard(path: Path) -> None:
    flip(path, INDEX_HEADER_BYTES + 4 * (FIRST + NUMBER), "train.classes")

    said = refusal(lambda: shardfeed.records(path, "train")[FIRST + NUMBER])

    damaged = r"is damaged: expected crc32c [0-9a-f]{8}, found [0-9a-f]{8}\. "
    assert re.fullmatch(rf"{path}/train\.classes {damaged}{re.escape(COPY)}", said)


def test_a_record_that_is_no_example(path: Path) -> None:
    rewrite(path, lambda row: {("kez" if name == "key" else name): value for name, value in row.items()})

    said = refusal(lambda: shardfeed.records(path, "train")[FIRST + NUMBER])

    assert said.startswith(f"{path}/{SHARD} is damaged: record {NUMBER} at byte ")
    expected = "expected a tf.train.Example of a build, found column key: expected 1 of bytes, found []"
    assert f"key unreadable: record: {expected}" in said


def test_a_shard_that_was_cut_after_it_was_opened(path: Path) -> None:
    ds = shardfeed.records(path, "train")
    ds[FIRST]
    data = (path / SHARD).read_bytes()
    (path / SHARD).write_bytes(data[:-1])

    assert refusal(lambda: ds[23]) == (
        f"{path}/{SHARD} is damaged: expected {len(data):,} bytes, found {len(data) - 1:,} bytes. {COPY}"
    )


def test_a_shard_that_was_removed_after_it_was_opened(path: Path) -> None:
    ds, size = shardfeed.records(path, "train"), (path / SHARD).stat().st_size
    (path / SHARD).unlink()

    for read in (lambda: ds[FIRST], lambda: ds.__getitems__([0, FIRST])):
        assert refusal(read) == f"{path}/{SHARD} is damaged: expected {size:,} bytes, found no such file. {COPY}"


def test_a_dataset_that_was_built_again_is_another_one(path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    ds, stale, other = shardfeed.records(path, "train"), shardfeed.info(path), tmp_path_factory.mktemp("other")
    elsewhere: shardfeed.Records = pickle.loads(pickle.dumps(ds))  # as a worker process has it before its first read
    manifest = write_dataset(other, seed=1).manifest
    (other / "manifest.json").write_text((other / "manifest.json").read_text().replace(manifest.fingerprint, "f" * 32))
    for file in other.iterdir():
        shutil.copy(file, path)
    for column in ("offsets", "classes"):
        rewritten_header(path, column=column, fingerprint="f" * 32)
    expected = (
        f"the dataset at {path} is another one since it was opened: expected fingerprint "
        f"{manifest.fingerprint}, found {'f' * 32}. Open it again."
    )

    assert refusal(lambda: [ds[number] for number in range(len(ds))]) == expected
    assert refusal(lambda: elsewhere[0]) == expected
    assert refusal(lambda: ds.labels) == expected
    (path / "train.classes").write_bytes(b"")  # as if of fewer records
    assert refusal(lambda: ds.labels) == expected
    assert refusal(lambda: shardfeed.records(stale, "train")) == expected


def test_a_dataset_that_is_copied_over_itself_is_read_on(path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    ds, copy = shardfeed.records(path, "train"), tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(path, copy, copy_function=shutil.copyfile)
    first = ds[0]["key"]
    shutil.rmtree(path)
    shutil.copytree(copy, path, copy_function=shutil.copyfile)

    assert [first, ds[36]["key"]] == [shardfeed.records(copy, "train").keys[number] for number in (0, 36)]


def test_a_dataset_that_went_away(path: Path) -> None:
    ds = shardfeed.records(path, "train")
    shutil.rmtree(path)

    assert refusal(lambda: ds[0]) == (
        f"no dataset at {path}: manifest.json is not there. Correct the path, or build the dataset with `shardfeed build`."
    )


def test_a_split_without_records(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"train": 3, "validation": 0})

    assert refusal(lambda: shardfeed.records(tmp_path, "validation")).startswith("split validation of the dataset at")


# ---- the index


@pytest.mark.parametrize("name", ["train.index", "train.classes"])
def test_a_torn_or_absent_index(path: Path, name: str) -> None:
    data = (path / name).read_bytes()
    damaged = f"{path}/{name} is damaged: expected {len(data)} bytes, found"
    for left in (len(data) - 1, len(data) - 8, 0):
        (path / name).write_bytes(data[:left])
        assert refusal(lambda: shardfeed.records(path, "train")) == f"{damaged} {left} bytes. {COPY}"

    (path / name).unlink()
    assert refusal(lambda: shardfeed.records(path, "train")) == f"{damaged} no such file. {COPY}"


def test_a_flipped_bit_in_the_header_of_an_index(path: Path) -> None:
    flip(path, 20, "train.index")

    said = refusal(lambda: shardfeed.records(path, "train"))

    expected = "expected the header of an index of offsets, found its header has crc32c"
    assert said.startswith(f"{path}/train.index is damaged: {expected}")


def rewritten_header(path: Path, **changes: Any) -> None:
    file = path / ("train.classes" if changes.get("column") == "classes" else "train.index")
    data = file.read_bytes()
    values: dict[str, Any] = {"column": "offsets", "fingerprint": FINGERPRINT, "records": 37, "shards": 3}
    header = IndexHeader(**{**values, "crc32c": crc32c(data[INDEX_HEADER_BYTES:]), **changes})
    file.write_bytes(header.to_bytes() + data[INDEX_HEADER_BYTES:])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"fingerprint": "f" * 32}, f"fingerprint {'f' * 32}, 37 records in 3 shards"),
        ({"records": 36}, f"fingerprint {FINGERPRINT}, 36 records in 3 shards"),
        ({"shards": 4}, f"fingerprint {FINGERPRINT}, 37 records in 4 shards"),
    ],
    ids=["fingerprint", "records", "shards"],
)
def test_an_index_of_another_dataset(path: Path, changes: dict[str, Any], found: str) -> None:
    rewritten_header(path, **changes)

    expected = f"fingerprint {FINGERPRINT}, 37 records in 3 shards"
    assert refusal(lambda: shardfeed.records(path, "train")) == (
        f"{path}/train.index is damaged: expected {expected}, found {found}. {COPY}"
    )


@pytest.mark.parametrize("wrong", [0, 1, (1 << 63) + 5, (1 << 64) - 1], ids=["the first", "inside", "huge", "the most"])
def test_an_index_that_disagrees_with_its_shard(path: Path, wrong: int) -> None:
    data = bytearray((path / "train.index").read_bytes())
    at = INDEX_HEADER_BYTES + 8 * (FIRST + NUMBER)
    data[at : at + 8] = np.uint64(wrong).tobytes()
    (path / "train.index").write_bytes(data)
    ds = shardfeed.records(path, "train")

    for read in READS:
        said = refusal(partial(read, ds))

        # where one begins, the other ends
        record = f"({FIRST + NUMBER - 1}|{FIRST + NUMBER})"
        assert re.match(rf"{path}/train\.index is damaged: record {record}: expected byte ", said)
        assert said.endswith(f"{COPY} shardfeed verify {path} --deep lists all damage.")
        assert SHARD in said
