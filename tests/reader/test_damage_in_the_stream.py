"""Damage met while reading: ``array_batches``, and ``explain_errors`` around ``load``, name file,
record, key and remedy.
"""

from __future__ import annotations

import gc
import itertools
import logging
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.arrays.blocks import BlockReader
from shardfeed.errors import DatasetError
from shardfeed.tfdata import explain_errors
from tests.kit.datasets import write_dataset
from tests.reader.damage import (
    NUMBER,
    SHARD,
    accept_shard,
    flip,
    message,
    offset_of,
    place,
    records_of,
    replace,
    rewrite,
    rewrite_image,
)  # fmt: skip
from tests.reader.streams import by_reader

Read = Callable[[Path], object]


def arrays(path: Path) -> None:
    list(shardfeed.array_batches(path, "train", 37, epochs=1))


def loop(path: Path, **options: Any) -> None:
    list(shardfeed.load(path, "train", 37, epochs=1, **options))


def explained(path: Path) -> None:
    with shardfeed.explain_errors(path):
        loop(path)


def explained_fit(path: Path) -> None:
    model = keras.Sequential([keras.Input((8, 12, 3)), keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with shardfeed.explain_errors(path):
        model.fit(shardfeed.load(path, "train", 37), steps_per_epoch=1, verbose=0)


def flipped_bit(path: Path) -> str:
    start = f"{place(path)}: crc of the data: expected "
    flip(path, offset_of(path, NUMBER) + 100)
    return start


def other_bytes(path: Path) -> str:
    replace(path, b"\x87" * len(records_of(path)[NUMBER]))
    return f"record {NUMBER} at byte {offset_of(path, NUMBER)}, key unreadable: record: expected a tf.train.Example, found "


def large_class(path: Path) -> str:
    rewrite(path, lambda row: {**row, "class": 3})
    return f"{place(path)}: class: expected 0 to 2, found 3. "


def negative_class(path: Path) -> str:
    # Ten bytes instead of one: the image has nine less.
    rewrite(path, lambda row: {**row, "class": -1, "image": row["image"][0][:-9]})
    return f"{place(path)}: class: expected 0 to 2, found -1. "


def no_image(path: Path) -> str:
    rewrite_image(path, lambda image: b"x" * len(image))
    return f"{place(path)}: image: expected a jpeg image "


@pytest.mark.parametrize(
    ("damage", "read"),
    [
        *(
            (damage, read)
            for damage in (flipped_bit, other_bytes, large_class, no_image)
            for read in (arrays, explained)
        ),
        (negative_class, arrays),
        (no_image, explained_fit),
    ],
    ids=lambda function: function.__name__,
)
def test_a_damaged_record_is_named(tmp_path: Path, damage: Callable[[Path], str], read: Read) -> None:
    write_dataset(tmp_path)
    start = damage(tmp_path)

    with pytest.raises(shardfeed.DatasetError) as found:
        read(tmp_path)

    assert str(found.value).startswith(f"{tmp_path}/{SHARD} is damaged: {start}")
    assert str(found.value).endswith(message(tmp_path, "").partition("damaged: ")[2])
    assert not any(inside in str(found.value) for inside in ("[Op:", "{{", " at 0x"))
    assert isinstance(found.value.__cause__, tf.errors.OpError | UnicodeDecodeError | None)


@pytest.mark.parametrize("at", [7, 8], ids=["length", "crc"])
def test_a_flipped_bit_in_a_length_or_its_crc_is_named(tmp_path: Path, at: int) -> None:
    key = write_dataset(tmp_path, image_format="raw").records["train"][12].key.decode()
    flip(tmp_path, at)

    with pytest.raises(shardfeed.DatasetError) as found:
        arrays(tmp_path)

    assert str(found.value).startswith(
        f"{tmp_path}/{SHARD} is damaged: record 0 at byte 0, key {'unreadable' if at < 8 else key}: crc of the length: expected "
    )


def test_images_that_pillow_decodes_are_looked_into(tmp_path: Path) -> None:
    write_dataset(tmp_path, image_format="webp")
    rewrite_image(tmp_path, lambda image: bytes(len(image)))

    with pytest.raises(shardfeed.DatasetError) as found:
        arrays(tmp_path)

    start = f"{tmp_path}/{SHARD} is damaged: {place(tmp_path)}: image: expected a webp image "
    assert str(found.value).startswith(start)


@pytest.mark.parametrize("reader", [shardfeed.array_batches, shardfeed.load])
def test_a_shard_that_goes_away_is_named(tmp_path: Path, reader: Any) -> None:
    size = write_dataset(tmp_path, image_format="raw").manifest.splits["train"].shards[1].bytes
    batches = reader(tmp_path, "train", 37, epochs=1)
    (tmp_path / SHARD).unlink()

    with pytest.raises(shardfeed.DatasetError) as found, shardfeed.explain_errors(tmp_path):
        list(batches)

    assert str(found.value) == message(tmp_path, f"expected {size:,} bytes, found no such file")


@by_reader("left,training", [(0, True), (4, False), (9, False)], load=[0, 2])
def test_a_shard_that_is_cut_between_two_records_is_no_shorter_pass(
    tmp_path: Path, left: int, reader: Any, training: bool
) -> None:
    write_dataset(tmp_path, image_format="raw")
    batches = iter(reader(tmp_path, "train", 4, training=training))
    ends = [offset_of(tmp_path, number) for number in range(13)]
    with open(tmp_path / SHARD, "r+b") as file:
        file.truncate(ends[left])

    with pytest.raises(shardfeed.DatasetError) as found, shardfeed.explain_errors(tmp_path, "train"):
        for _ in itertools.islice(batches, 20):
            pass

    first = left // 4 * 4  # of the block that is cut
    assert (
        f"{SHARD} is damaged: from byte {ends[first]} on: expected 4 records in {ends[first + 4] - ends[first]:,} bytes, "
        in (str(found.value))
    )


def test_a_flipped_bit_in_a_copy_is_named_there(tmp_path: Path) -> None:
    path = tmp_path / "dataset"
    write_dataset(path)
    start = place(path)
    train = shardfeed.load(path, "train", 37, epochs=1, cache=tmp_path / "copies")
    (copy,) = (tmp_path / "copies").rglob(f"*{SHARD}")
    flip(copy.parent, offset_of(path, NUMBER) + 100, copy.name)

    with pytest.raises(shardfeed.DatasetError) as found, shardfeed.explain_errors(path):
        list(train)

    assert str(found.value).startswith(f"{copy} is damaged: {start}: crc of the data: expected ")
    assert str(found.value).endswith(
        f"It is a copy of {path}, made by cache=: delete it, and the next reader copies it again."
    )
    copy.unlink()
    loop(path, cache=tmp_path / "copies")


def test_an_image_that_cannot_be_decoded_is_named_in_the_original_of_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "dataset"
    write_dataset(path)
    no_image(path)
    accept_shard(path)

    with pytest.raises(shardfeed.DatasetError) as found, shardfeed.explain_errors(path):
        loop(path, cache=tmp_path / "copies")

    assert str(found.value).startswith(f"{path}/{SHARD} is damaged: record 6 at byte ")


def test_the_first_of_several_damages_in_the_order_of_the_shards_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    for name in (SHARD.replace("00001-of", "00002-of"), SHARD):
        flip(tmp_path, 100, name)

    with pytest.raises(shardfeed.DatasetError, match=f"{SHARD} is damaged: record 0 "):
        explained(tmp_path)


def test_only_the_split_that_is_named_is_looked_into(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"broken": 5, "train": 37})
    for name in ("broken-00000-of-00003.tfrecord", SHARD):
        flip(tmp_path, 100, name)

    for split, named in ((None, "broken-00000"), ("train", SHARD)):
        with pytest.raises(shardfeed.DatasetError, match=named), shardfeed.explain_errors(tmp_path, split):
            loop(tmp_path)


def test_an_error_of_the_model_passes_unchanged_and_nothing_is_read(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / SHARD).write_bytes(b"damaged")

    with pytest.raises(tf.errors.InvalidArgumentError), shardfeed.explain_errors(tmp_path):
        tf.debugging.assert_equal(1, 2)
    with pytest.raises(KeyError), shardfeed.explain_errors(tmp_path):
        raise KeyError("loss")


def test_an_error_behind_the_reader_passes_with_a_warning(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    def refuse(images: Any, labels: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_negative(labels)]):
            return images, labels

    with (
        pytest.warns(UserWarning, match="all 37 records of train at .* are in order now") as warned,
        pytest.raises(tf.errors.InvalidArgumentError),
        shardfeed.explain_errors(tmp_path, "train"),
    ):
        list(shardfeed.load(tmp_path, "train", 37, epochs=1).map(refuse))

    assert warned[0].filename == __file__


@pytest.mark.parametrize("kind", ["Unavailable", "ResourceExhausted"])
def test_what_damage_does_not_look_like_passes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    error = getattr(tf.errors, f"{kind}Error")
    write_dataset(tmp_path)
    monkeypatch.setattr(BlockReader, "read", lambda *_: pytest.fail("a shard was read"))

    with pytest.raises(error), shardfeed.explain_errors(tmp_path):
        raise error(None, None, "{{function_node __wrapped__IteratorGetNext}} 503: try again")


def test_it_says_that_it_looks_and_for_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_dataset(tmp_path)
    flip(tmp_path, 100, "train-00002-of-00003.tfrecord")
    now = itertools.count(0, 60)  # a minute passes at each look
    monkeypatch.setattr(explain_errors, "clock", lambda: next(now))

    with (
        caplog.at_level(logging.WARNING, "shardfeed"),
        pytest.warns(UserWarning) as warned,
        pytest.raises(tf.errors.DataLossError),
        shardfeed.explain_errors(tmp_path, "train"),
    ):
        loop(tmp_path)

    assert [record.getMessage() for record in caplog.records if record.name == "shardfeed"] == [
        f"Reading failed. Looking for the damaged record in 3 shards of {tmp_path}, for at most 300 s."
    ]
    assert str(warned[0].message) == (
        f"reading failed, and no damage was found in the first 300 s of looking through train at {tmp_path}. "
        f"shardfeed verify {tmp_path} --deep looks through all of it."
    )


def test_the_threads_of_array_batches_end_where_the_stream_is_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # streams of other tests may be waiting still

    def ours() -> list[str]:
        begun = set(threading.enumerate()) - before
        return [thread.name for thread in begun if thread.name.startswith("shardfeed-")]

    write_dataset(tmp_path)
    stream = iter(shardfeed.array_batches(tmp_path, "train", 8))
    next(stream)
    assert ours()

    stream.close()  # type: ignore[attr-defined]

    assert not ours()


def test_a_stream_that_failed_ends_with_its_error_and_needs_no_garbage_collector(tmp_path: Path) -> None:
    def failed() -> weakref.ref[Any]:
        rows = iter(stream)
        try:
            with shardfeed.explain_errors(tmp_path):
                list(rows)
        except DatasetError:
            return weakref.ref(rows)
        raise AssertionError("no damage was met")

    write_dataset(tmp_path)
    flipped_bit(tmp_path)
    stream = shardfeed.load(tmp_path, "train", 37, epochs=1)
    gc.disable()
    try:
        assert failed()() is None
    finally:
        gc.enable()
