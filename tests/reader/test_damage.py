"""What is wrong with a dataset is said before the first step, with file, expected, found and
remedy.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.errors import DatasetError, UsageError
from tests.kit.datasets import write_dataset
from tests.reader.streams import READERS

SHARD = "train-00001-of-00003.tfrecord"
COPY = "Copy the file from where the dataset is whole, or build the dataset again into an empty folder."


def refusal(error: type[Exception], *args: Any, reader: Any = shardfeed.load, **options: Any) -> str:
    with pytest.raises(error) as found:
        reader(*args, **options)
    assert type(found.value) is error
    return str(found.value)


@pytest.mark.parametrize(("damage", "reader"), [("cut", shardfeed.load), ("longer", shardfeed.array_batches)])
def test_a_shard_of_another_size(tmp_path: Path, reader: Any, damage: str) -> None:
    size = write_dataset(tmp_path, image_format="raw").manifest.splits["train"].shards[1].bytes
    shard = tmp_path / SHARD
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] if damage == "cut" else data + b"\0")
    found = f"{shard.stat().st_size:,} bytes"

    assert refusal(DatasetError, tmp_path, "train", 4, reader=reader) == (
        f"{shard} is damaged: expected {size:,} bytes, found {found}. {COPY}"
    )


def test_damage_in_another_split_does_not_matter(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / SHARD).unlink()

    assert len(shardfeed.load(tmp_path, "validation", 5)) == 2


@pytest.mark.parametrize("exists", [True, False], ids=["empty folder", "no folder"])
def test_no_dataset(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path if exists else tmp_path / "nothing"

    assert refusal(DatasetError, folder, "train", 4) == (
        f"no dataset at {folder}: manifest.json is not there. "
        "Correct the path, or build the dataset with `shardfeed build`."
    )


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    for name in ("manifest.json", SHARD):
        assert refusal(DatasetError, tmp_path / name, "train", 4) == (
            f"no dataset at {tmp_path}/{name}: expected the folder of one, found a file. Name its folder."
        )


def test_a_build_that_did_not_finish(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "_parts").mkdir()
    (tmp_path / "_parts" / "CLAIM").write_text("{}")

    assert refusal(DatasetError, tmp_path, "train", 4) == (
        f"no dataset at {tmp_path}: build incomplete: rerun the same `shardfeed build` command. "
        "It carries on from its finished parts."
    )


def test_a_file_too_large_for_a_manifest_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "manifest.json", "wb") as file:
        file.truncate((256 << 20) + 1)  # sparse: no bytes on disk

    assert refusal(DatasetError, tmp_path, "train", 4) == (
        f"{tmp_path}/manifest.json has 268,435,457 bytes, expected at most 268,435,456: it is not a manifest of "
        "shardfeed. Restore the file from a copy, or build the dataset again."
    )


def test_a_split_without_records(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"train": 5, "empty": 0})

    assert refusal(DatasetError, tmp_path, "empty", 4, training=True) == (
        f"split empty of the dataset at {tmp_path} has no records. Choose another split or build the dataset again."
    )


@READERS
def test_images_of_varying_size(tmp_path: Path, reader: Any) -> None:
    write_dataset(tmp_path, size=None, image_format="raw")

    assert refusal(UsageError, tmp_path, "train", 4, reader=reader) == (
        f"the images of the dataset at {tmp_path} vary in size, and a batch needs one: pass image_size=, for example "
        "image_size=224 with crop='center', or build the dataset with a fixed size."
    )


def test_an_address_of_no_store() -> None:
    assert re.search("ftp://.*gs://", refusal(UsageError, "ftp://host/flowers", "train", 4))


@pytest.mark.parametrize("dataset", [None, 3, b"flowers"], ids=repr)
def test_what_is_no_dataset(dataset: Any) -> None:
    assert refusal(UsageError, dataset, "train", 4) == (
        f"the dataset is {dataset!r}: expected what shardfeed.info gave, its folder or gs://bucket/folder."
    )


def test_a_dataset_that_was_moved_opens_where_it_is_now(tmp_path: Path) -> None:
    write_dataset(tmp_path / "old")
    # no file name is ever taken for a pattern
    shutil.move(tmp_path / "old", tmp_path / "new [1] *")

    (_,) = shardfeed.load(tmp_path / "new [1] *", "train", 37, epochs=1)
