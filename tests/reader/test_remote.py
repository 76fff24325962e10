"""A dataset on gs://: what is asked of the store before the first record."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import shardfeed
from shardfeed.transforms import stores
from tests.kit.datasets import write_dataset


@pytest.fixture
def url(gcs_bucket: str, tmp_path: Path) -> str:
    """A dataset in a folder of a bucket."""
    store = stores.open_output(f"{gcs_bucket}/flowers")
    for file in write_dataset(tmp_path).path.iterdir():
        assert store.create(file.name, file.read_bytes())
    return store.url


def test_info_is_the_same_as_of_the_folder_that_was_copied(url: str, tmp_path: Path) -> None:
    info = shardfeed.info(url + "/")

    assert info.manifest == shardfeed.info(tmp_path).manifest
    assert info.url == url


@pytest.mark.filterwarnings("ignore:TensorFlow was imported without shardfeed.tune_gcs")
def test_whole_shards_are_accepted_and_nothing_of_them_is_read(url: str) -> None:
    assert shardfeed.load(url, "train", 8).element_spec[0] == tf.TensorSpec([8, 8, 12, 3], tf.uint8)


def test_a_missing_shard_is_named(url: str) -> None:
    stores.open_output(url).delete("train-00002-of-00003.tfrecord")
    size = shardfeed.info(url).splits["train"].shards[2].bytes

    with pytest.raises(shardfeed.DatasetError) as found:
        shardfeed.load(url, "train", 8)

    assert str(found.value) == (
        f"{url}/train-00002-of-00003.tfrecord is damaged: expected {size:,} bytes, found no such file. "
        "Copy the file from where the dataset is whole, or build the dataset again into an empty folder."
    )


def test_no_dataset_and_an_unfinished_build_are_told_apart(gcs_bucket: str) -> None:
    store = stores.open_output(f"{gcs_bucket}/flowers")

    with pytest.raises(shardfeed.DatasetError, match=r"^no dataset at gs://.*/flowers: manifest\.json is not there\."):
        shardfeed.info(store.url)
    store.create("_parts/CLAIM", b"{}")
    with pytest.raises(
        shardfeed.DatasetError, match=r"^no dataset at gs://.*/flowers: build incomplete: rerun the same"
    ):
        shardfeed.info(store.url)
