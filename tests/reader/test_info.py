"""``info``: what a trainer asks of a dataset before it reads it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from tests.kit.datasets import write_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset")).path


@pytest.fixture(scope="module")
def info(folder: Path) -> shardfeed.DatasetInfo:
    return shardfeed.info(folder)


def test_it_says_what_the_manifest_says(info: shardfeed.DatasetInfo, folder: Path) -> None:
    assert info.url == str(folder)
    assert info.classes == ("daisy", "rose", "tulip")
    assert info.image_shape == (8, 12, 3)
    assert info.mean == (127.5, 127.5, 127.5)
    assert info.std == (64.25, 64.25, 64.25)
    assert info.fingerprint == "0123456789abcdef0123456789abcdef"
    assert list(info.splits) == ["train", "validation"]


def test_a_split_says_records_bytes_classes_and_shards(info: shardfeed.DatasetInfo, folder: Path) -> None:
    train = info.splits["train"]

    files = [f"train-{i:05d}-of-00003.tfrecord" for i in range(3)]
    assert (train.name, train.num_records) == ("train", 37)
    assert [(shard.file, shard.records) for shard in train.shards] == list(zip(files, (12, 12, 13), strict=True))
    assert train.bytes == sum((folder / file).stat().st_size for file in files)
    assert train.class_counts == {"daisy": 14, "rose": 10, "tulip": 13}


def test_height_and_width_are_none_where_sizes_vary(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=None, channels=1, splits={"train": 3}, shards=1)
    info = shardfeed.info(tmp_path)

    assert info.image_shape == (None, None, 1)
    assert repr(info).splitlines()[-2].endswith(" bytes, 1 shard")


def test_steps_per_epoch_are_whole_batches_and_at_least_one(info: shardfeed.DatasetInfo) -> None:
    assert [info.steps_per_epoch("train", batch_size) for batch_size in (1, 8, 37, 38)] == [37, 4, 1, 1]


def test_evaluation_steps_hold_every_record(info: shardfeed.DatasetInfo) -> None:
    assert [info.evaluation_steps("validation", batch_size) for batch_size in (1, 4, 10, 11)] == [10, 3, 1, 1]


def test_steps_per_epoch_of_an_evaluated_split_warn_of_the_lost_batch(info: shardfeed.DatasetInfo) -> None:
    with pytest.warns(UserWarning) as found:
        assert info.steps_per_epoch("validation", 4) == 2

    assert [(str(one.message), one.filename) for one in found] == [
        (
            "steps_per_epoch('validation', 4) is for training: as steps= or validation_steps= it leaves out the last batch, "
            "and loss is wrong. Leave these arguments out, or use info.evaluation_steps.",
            __file__,
        )
    ]


def test_class_weights_balance_the_classes(info: shardfeed.DatasetInfo) -> None:
    weights = info.class_weight("train")

    assert weights == {0: 37 / (3 * 14), 1: 37 / (3 * 10), 2: 37 / (3 * 13)}
    assert sum(weights[i] * count for i, count in enumerate((14, 10, 13))) == pytest.approx(37)


def test_a_class_without_records_weighs_nothing(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"train": 4, "validation": 2})

    assert shardfeed.info(tmp_path).class_weight("validation") == {0: 1.0, 1: 1.0, 2: 0.0}


@pytest.mark.parametrize("name", ["test", ["train"], None], ids=repr)
def test_an_unknown_split_is_an_error_that_lists_the_splits(info: shardfeed.DatasetInfo, name: Any) -> None:
    for ask in (
        lambda: info.splits[name],
        lambda: info.steps_per_epoch(name, 8),
        lambda: info.evaluation_steps(name, 8),
        lambda: info.class_weight(name),
    ):
        with pytest.raises(shardfeed.UsageError) as found:
            ask()
        assert isinstance(found.value, KeyError) and isinstance(found.value, ValueError)

    assert str(found.value) == (
        f"split {name!r} is not in the dataset at {info.url}: its splits are train, validation. Name one of these, or build the "
        "dataset again with --splits, for example train=0.9,validation=0.1."
    )


def test_its_text_fits_a_notebook_cell(info: shardfeed.DatasetInfo) -> None:
    train, validation = (f"{info.splits[name].bytes:,} bytes" for name in ("train", "validation"))

    assert repr(info).splitlines() == [
        f"DatasetInfo({info.url!r})",
        "  images       8 × 12 × 3, jpeg",
        "  classes      3: daisy, rose, tulip",
        f"  split        train: 37 records, {train}, 3 shards",
        f"  split        validation: 10 records, {validation}, 3 shards",
        "  fingerprint  0123456789abcdef0123456789abcdef",
    ]


def test_the_address_is_absolute_however_the_folder_is_spelled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))

    spellings: list[str | Path] = [str(folder), folder, f"{folder}/", folder.name, os.path.join("~", folder.name)]

    assert {spelling: shardfeed.info(spelling).url for spelling in spellings} == dict.fromkeys(spellings, str(folder))


def test_it_travels_to_other_processes(info: shardfeed.DatasetInfo) -> None:
    assert pickle.loads(pickle.dumps(info)) == info
    assert pickle.loads(pickle.dumps(info.splits)) == info.splits


def test_it_can_be_the_key_of_a_cache(info: shardfeed.DatasetInfo, folder: Path) -> None:
    assert {info: "known"}[shardfeed.info(folder)] == "known"
