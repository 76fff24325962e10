"""A dataset on gs://: what ``load`` asks of the store, and what it gives."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.sampling.blocks import blocks_in
from shardfeed.tfdata import remote_records
from tests.kit.datasets import Written, upload, write_dataset
from tests.kit.servers.strict_gcs import StrictGCS
from tests.reader.streams import THREE_BLOCKS, elastic, numbers

PATIENCE = 60  # seconds until a test gives up
SHARD = "flowers/train-00001-of-00003.tfrecord"


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return write_dataset(tmp_path / "data", image_format="raw")


@pytest.fixture
def server(written: Written, strict_gcs: StrictGCS) -> StrictGCS:
    """Holds ``written`` as gs://bucket/flowers."""
    upload(written.path, "gs://bucket/flowers")
    return strict_gcs


@pytest.mark.parametrize(
    ("cache", "options"),
    [
        (None, {"shuffle_buffer": THREE_BLOCKS, "epochs": 2, "start_step": 3}),
        ("decoded", {"training": False}),
        ("copies", {"training": False}),
    ],
)
def test_batches_are_those_of_the_folder_that_was_copied(
    server: StrictGCS, written: Written, tmp_path: Path, options: dict[str, object], cache: str | None
) -> None:
    cache = str(tmp_path / "copies") if cache == "copies" else cache
    ours = shardfeed.load("gs://bucket/flowers", "train", 9, as_dict=True, cache=cache, **options)  # type: ignore[arg-type]
    theirs = shardfeed.load(written.path, "train", 9, as_dict=True, **options)  # type: ignore[arg-type]
    for one, other in zip(ours.as_numpy_iterator(), theirs.as_numpy_iterator(), strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in other)


@pytest.fixture
def of_8_streams(strict_gcs: StrictGCS, tmp_path: Path) -> Written:
    """Also in gs://bucket/many."""
    written = elastic(tmp_path / "many")
    upload(written.path, "gs://bucket/many")
    return written


@pytest.mark.parametrize("options", [{"host": (1, 2), "start_step": 7}, {"host": (2, 3)}], ids=str)
def test_several_streams_come_in_the_order_of_the_folder(of_8_streams: Written, options: dict[str, Any]) -> None:
    near, far = (
        shardfeed.load(url, "train", 6, shuffle_buffer=THREE_BLOCKS * 8, **options).take(120)
        for url in (of_8_streams.path, "gs://bucket/many")
    )

    assert numbers(far, of_8_streams, "train") == numbers(near, of_8_streams, "train")


def test_iterators_of_one_stream_do_not_disturb_each_other(of_8_streams: Written) -> None:
    batches = shardfeed.load("gs://bucket/many", "train", 6, shuffle_buffer=THREE_BLOCKS)
    whole = [labels.tolist() for _, labels in batches.take(50).as_numpy_iterator()]

    one, left, other = (batches.as_numpy_iterator() for _ in range(3))
    next(left)
    found = [(next(one)[1].tolist(), next(other)[1].tolist()) for _ in whole]

    assert found == list(zip(whole, whole, strict=True))


def test_readings_of_left_iterators_end_with_the_dataset(of_8_streams: Written) -> None:
    before = set(threading.enumerate())
    batches = shardfeed.load("gs://bucket/many", "train", 6, shuffle_buffer=THREE_BLOCKS)
    next(batches.as_numpy_iterator())
    begun = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("shardfeed-")]
    assert begun

    del batches
    gc.collect()

    for thread in begun:
        thread.join(PATIENCE / len(begun))
    assert not any(thread.is_alive() for thread in begun)


def test_a_graph_that_outlives_the_dataset_reads_on(of_8_streams: Written) -> None:
    def labels() -> tf.data.Dataset:
        return shardfeed.load("gs://bucket/many", "train", 6, epochs=1, shuffle_buffer=THREE_BLOCKS)

    variant = tf.data.experimental.to_variant(labels())
    gc.collect()

    again = tf.data.experimental.from_variant(variant, labels().element_spec)
    assert [y.tolist() for _, y in again.as_numpy_iterator()] == [y.tolist() for _, y in labels().as_numpy_iterator()]


class Begun:
    """Readings of chunks that hold their own number; notes what begins and what ends."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __call__(self, number: int) -> Generator[Any, None, None]:
        self.log.append(f"begin {number}")
        try:
            for at in itertools.count(number):
                if at == 13:
                    raise shardfeed.StorageError("13")
                yield np.array([at], object)
        finally:
            self.log.append(f"end {number}")


def test_a_reading_goes_on_for_whoever_asks_for_its_next_chunk() -> None:
    begun = Begun()
    readings = remote_records._Readings(begun, 5)

    found = [readings.chunk(number).tolist() for number in (0, 1, 0, 1, 2, 2, 3, 4, 3)]

    assert found == [[0], [1], [0], [1], [2], [2], [3], [4], [3]]
    assert begun.log == ["begin 0", "begin 0", "end 0"]  # two iterators, of which one came to the end
    assert readings.chunk(2).tolist() == [2] and begun.log[3:] == ["begin 2"]


def test_of_more_than_two_readings_the_one_that_waits_longest_ends() -> None:
    begun = Begun()
    readings = remote_records._Readings(begun, 100)

    for number in (0, 7, 1, 9):
        readings.chunk(number)

    assert begun.log == ["begin 0", "begin 7", "begin 9", "end 7"]


def test_chunks_behind_one_that_failed_are_not_read() -> None:
    begun = Begun()
    readings = remote_records._Readings(begun, 100)
    readings.chunk(12)

    for number in (13, 14, 99):
        with pytest.raises(shardfeed.StorageError, match=r"^13$"):
            readings.chunk(number)

    assert begun.log == ["begin 12", "end 12"]
    assert readings.chunk(12).tolist() == [12]
    assert readings.chunk(14).tolist() == [14]  # whoever begins anew gets an answer


def test_each_block_is_one_request_of_its_own_bytes(server: StrictGCS, written: Written) -> None:
    batches = shardfeed.load("gs://bucket/flowers", "train", 37, epochs=1)
    server.log.clear()

    assert len(list(batches)) == 1

    blocks = blocks_in(written.manifest.splits["train"].shards)
    asked = sorted((request.name, request.headers["range"]) for request in server.log)
    assert asked == sorted(
        (f"flowers/{block.shard.file}", f"bytes={block.offset}-{block.offset + block.bytes - 1}") for block in blocks
    )


def test_a_fault_of_the_store_is_tried_again(server: StrictGCS) -> None:
    batches = shardfeed.load("gs://bucket/flowers", "train", 37, epochs=1)
    fault = server.inject("drop", "get", SHARD, times=3)

    assert (len(list(batches)), fault.times) == (1, 0)


def test_a_store_that_keeps_failing_is_named_in_tensorflow_s_error(server: StrictGCS) -> None:
    batches = shardfeed.load("gs://bucket/flowers", "train", 37, epochs=1)
    server.inject("status", "get", SHARD, times=None)

    with pytest.raises(tf.errors.UnknownError, match=rf"StorageError: cannot get gs://bucket/{SHARD}: .*, 10 times\."):
        list(batches)


def test_damage_in_mid_stream_is_named_and_explained(server: StrictGCS, written: Written) -> None:
    batches = shardfeed.load("gs://bucket/flowers", "train", 37, epochs=1)
    data = bytearray((written.path / SHARD.removeprefix("flowers/")).read_bytes())
    data[100] ^= 1
    server.objects.put("bucket", SHARD, bytes(data))
    named = rf"gs://bucket/{SHARD} is damaged: record 0 at byte 0, key "

    with pytest.raises(tf.errors.InvalidArgumentError, match=named):
        list(batches)
    with pytest.raises(shardfeed.DatasetError, match="^" + named), shardfeed.explain_errors("gs://bucket/flowers"):
        list(batches)


LEAVE = """
import tensorflow, shardfeed
batches = iter(shardfeed.load("gs://bucket/flowers", "train", 1, shuffle_buffer="1GB"))
next(batches)
print("left")
"""


def test_a_program_may_end_while_requests_are_under_way(server: StrictGCS) -> None:
    env = {**os.environ, "STORAGE_EMULATOR_HOST": server.url, "TF_CPP_MIN_LOG_LEVEL": "3"}

    done = subprocess.run([sys.executable, "-c", LEAVE], env=env, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
