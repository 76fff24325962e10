"""A dataset without index files, as version 1 of the format wrote them, is read by its ``.idx``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import DatasetError
from tests.kit.datasets import write_dataset
from tests.kit.indexes import without_indexes
from tests.kit.sources import ROOT

INDEX = "train-00001-of-00003.tfrecord.idx"
WARNING = (
    r"^the dataset at .* has no index to map for train\. The first read from a shard reads its text index, in each process, and "
    r"ds\.labels reads every record\. Build the dataset again to have one\.$"
)
COPY = "Copy the file from where the dataset is whole, or build the dataset again into an empty folder."


def without_index(path: Path) -> shardfeed.Records:
    without_indexes(path)
    with pytest.warns(UserWarning, match=WARNING) as warned:
        found = shardfeed.records(path, "train")
    assert [each.filename for each in warned] == [__file__]
    return found


def test_it_reads_the_same_records_and_labels(tmp_path: Path) -> None:
    for name in ("old", "new"):
        write_dataset(tmp_path / name)
    old, new = without_index(tmp_path / "old"), shardfeed.records(tmp_path / "new", "train")

    assert len(old) == len(new) == 37
    for ours, theirs in zip(old.__getitems__(range(37)), new, strict=True):
        assert ours.pop("image").tobytes() == theirs.pop("image").tobytes() and ours == theirs
    assert old[36]["key"] == new[36]["key"]
    assert old.labels.dtype == np.int32 and old.labels.tolist() == new.labels.tolist()
    assert old[5:20:-1].labels.tolist() == [] and old[20:5:-3].labels.tolist() == new[20:5:-3].labels.tolist()
    assert not old.labels.flags.writeable


def test_a_stored_dataset_of_version_1_is_read() -> None:
    with pytest.warns(UserWarning, match="has no index to map for train"):
        ds = shardfeed.records(ROOT / "tests/golden/v1", "train")

    assert np.bincount(ds.labels, minlength=3).tolist() == [
        shardfeed.info(ROOT / "tests/golden/v1").splits["train"].class_counts[name] for name in ds.classes
    ]
    assert all(item["key"].startswith(f"{ds.classes[item['label']]}/") for item in ds)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data[: data.rindex(b"\n", 0, -1) + 1], "found 11 lines that do not"),
        (lambda data: data.replace(b"0 ", b"1 ", 1), "found 12 lines that do not"),
        (lambda data: data[: data.rindex(b" ")] + b"\n", "found 12 lines that do not"),
        (lambda data: b"", "found 0 lines that do not"),
    ],
    ids=["a line fewer", "another offset", "no last size", "empty"],
)
def test_a_text_index_that_disagrees_with_its_shard(tmp_path: Path, change: object, found: str) -> None:
    size = write_dataset(tmp_path).manifest.splits["train"].shards[1].bytes
    (tmp_path / INDEX).write_bytes(change((tmp_path / INDEX).read_bytes()))  # type: ignore[operator]
    ds = without_index(tmp_path)

    assert ds[0]["key"]
    with pytest.raises(DatasetError) as refused:
        ds[12]
    assert str(refused.value) == (
        f'{tmp_path}/{INDEX} is damaged: expected 12 lines "offset size" that follow each other up to byte {size:,}, '
        f"{found}. {COPY}"
    )


def test_a_text_index_that_is_none(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    ds = without_index(tmp_path)
    (tmp_path / INDEX).write_bytes(b"0 abc\n")
    with pytest.raises(DatasetError, match=r"\.idx is damaged: expected numbers, found invalid literal for int"):
        ds[12]
    (tmp_path / INDEX).unlink()
    with pytest.raises(DatasetError, match=r"\.idx is damaged: expected 12 lines, found no such file\. Copy the file"):
        ds[12]
