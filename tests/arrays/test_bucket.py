"""NumPy batches from gs://, on a real server and on one that counts requests and misbehaves."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.sampling.blocks import Block
from tests.kit.datasets import upload, write_dataset
from tests.kit.servers.strict_gcs import StrictGCS
from tests.reader.streams import THREE_BLOCKS, numbers

SHARD = "a/flowers/train-00001-of-00003.tfrecord"


FOLDERS = ["a/flowers", "", "a b/fl=owers/v1.2", "a//b", "a/./b", "a/../b", "..", "#1/50%25?", "blüten*[1]"]


@pytest.mark.parametrize("folder", FOLDERS, ids=repr)
def test_batches_from_a_bucket_are_those_of_the_folder_that_was_copied(
    gcs_bucket: str, tmp_path: Path, folder: str
) -> None:
    write_dataset(tmp_path)
    url = upload(tmp_path, f"{gcs_bucket}/{folder}" if folder else gcs_bucket)
    options: dict[str, Any] = {"shuffle_buffer": THREE_BLOCKS, "epochs": 2, "seed": 3}

    remote, local = (shardfeed.array_batches(where, "train", 9, **options) for where in (url, tmp_path))

    assert len(remote) == 8
    for ours, theirs in zip(remote, local, strict=True):
        assert np.array_equal(ours[0], theirs[0]) and np.array_equal(ours[1], theirs[1])


def test_each_block_is_one_request_and_nothing_is_listed(strict_gcs: StrictGCS, tmp_path: Path) -> None:
    written = write_dataset(tmp_path, image_format="raw")
    batches = shardfeed.array_batches(upload(tmp_path, "gs://bucket/a/flowers"), "train", 37, epochs=1)
    before = len(strict_gcs.log)

    assert sorted(numbers(batches, written, "train")) == list(range(37))
    assert Counter(request.kind for request in strict_gcs.log[before:]) == {"get": 10}


def test_evaluation_keeps_many_requests_in_flight(
    strict_gcs: StrictGCS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_dataset(tmp_path, image_format="raw")
    url = upload(tmp_path, "gs://bucket/a/flowers")
    together, read = threading.Barrier(10), BlockReader.read  # all blocks of the split

    def read_together(self: BlockReader, block: Block) -> LoadedBlock:
        together.wait(30)
        return read(self, block)

    monkeypatch.setattr(BlockReader, "read", read_together)
    batches = shardfeed.array_batches(url, "train", 37, training=False)

    assert numbers(batches, written, "train") == list(range(37))


def test_a_store_that_keeps_failing_is_a_storage_error(strict_gcs: StrictGCS, tmp_path: Path) -> None:
    write_dataset(tmp_path)
    batches = shardfeed.array_batches(upload(tmp_path, "gs://bucket/a/flowers"), "train", 37, epochs=1)
    strict_gcs.inject("status", "get", SHARD, times=None)

    with pytest.raises(shardfeed.StorageError, match=rf"^cannot get gs://bucket/{SHARD}: .*, 10 times\."):
        list(batches)
