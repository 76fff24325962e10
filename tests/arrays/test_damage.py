"""Damage met while reading: the message names file, record, byte, key, expected, found and the remedy by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.format.example import decode_example, encode_example
from shardfeed.format.tfrecord import OVERHEAD, frame, scan
from tests.kit.datasets import write_dataset

SHARD = "train-00001-of-00003.tfrecord"


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(shardfeed.DatasetError) as found:
        list(shardfeed.array_batches(path, "train", 37, **{"epochs": 1, **options}))
    return str(found.value)


def message(path: Path, what: str) -> str:
    return (
        f"{path}/{SHARD} is damaged: {what}. Copy the file from where the dataset is whole, or build the dataset again into "
        f"an empty folder. shardfeed verify {path} --deep lists all damage."
    )


def records_of(path: Path) -> list[bytes]:
    with open(path / SHARD, "rb") as file:
        return [data for _, data in scan(file)]


def offset_of(records: list[bytes], number: int) -> int:
    return sum(len(data) + OVERHEAD for data in records[:number])


def rewrite(path: Path, number: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Put another record of the same length, with right checksums, in the place of record ``number``; its offset."""
    records = records_of(path)
    changed = encode_example({**change({**decode_example(records[number])})})
    assert len(changed) == len(records[number])
    offset = offset_of(records, number)
    records[number] = changed
    (path / SHARD).write_bytes(b"".join(map(frame, records)))
    return offset


@pytest.mark.parametrize("options", [{}, {"training": False, "epochs": None}], ids=["training", "evaluation"])
def test_a_flipped_bit(tmp_path: Path, options: dict[str, Any]) -> None:
    written = write_dataset(tmp_path, image_format="raw")
    records = records_of(tmp_path)
    offset = offset_of(records, 6)  # in the second block
    data = bytearray((tmp_path / SHARD).read_bytes())
    data[offset + 100] ^= 1
    (tmp_path / SHARD).write_bytes(data)
    key = written.records["train"][12 + 6].key.decode()

    found = refusal(tmp_path, **options)

    crcs = re.search(r"expected ([0-9a-f]{8}), found ([0-9a-f]{8})", found)
    assert crcs and crcs[1] != crcs[2]
    assert found == message(
        tmp_path, f"record 6 at byte {offset}, key {key}: crc of the data: expected {crcs[1]}, found {crcs[2]}"
    )


@pytest.mark.parametrize("place", range(12))
def test_a_flipped_bit_in_a_length_or_its_crc(tmp_path: Path, place: int) -> None:
    written = write_dataset(tmp_path, image_format="raw")
    data = bytearray((tmp_path / SHARD).read_bytes())
    data[place] ^= 1
    (tmp_path / SHARD).write_bytes(data)
    key = "unreadable" if place < 8 else written.records["train"][12].key.decode()

    assert refusal(tmp_path).startswith(
        f"{tmp_path}/{SHARD} is damaged: record 0 at byte 0, key {key}: crc of the length: expected "
    )


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp"])
def test_an_image_that_cannot_be_decoded(tmp_path: Path, image_format: str) -> None:
    written = write_dataset(tmp_path, image_format=image_format)
    offset = rewrite(tmp_path, 6, lambda columns: {**columns, "image": b"x" * len(columns["image"][0])})
    key = written.records["train"][12 + 6].key.decode()

    found = refusal(tmp_path)

    start = message(
        tmp_path,
        f"record 6 at byte {offset}, key {key}: image: expected a {image_format} image of 8 x 12 x 3 that decodes, found ",
    )
    assert found.startswith(start.partition(". Copy")[0])
    assert " at 0x" not in found  # the same text in each run


def test_an_image_that_is_no_jpeg_is_named(tmp_path: Path) -> None:
    written = write_dataset(tmp_path)
    offset = rewrite(tmp_path, 6, lambda columns: {**columns, "image": b"\0" * len(columns["image"][0])})
    key = written.records["train"][12 + 6].key.decode()

    assert refusal(tmp_path) == message(
        tmp_path,
        f"record 6 at byte {offset}, key {key}: image: expected a jpeg image of 8 x 12 x 3 that decodes, found "
        "tjDecompressHeader3(): Could not determine subsampling level of JPEG image",
    )


def test_an_image_that_ends_early(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=(400, 400))

    def cut(columns: dict[str, Any]) -> dict[str, Any]:
        image = columns["image"][0]
        return {**columns, "image": image[: len(image) // 2].ljust(len(image), b"\0")}

    offset = rewrite(tmp_path, 2, cut)

    assert f"record 2 at byte {offset}, key train/" in refusal(tmp_path)


@pytest.mark.parametrize(("number", "longer"), [(3, 0), (-1, 9)])
def test_a_class_that_is_not_one(tmp_path: Path, number: int, longer: int) -> None:
    written = write_dataset(tmp_path, image_format="raw")
    offset = rewrite(
        tmp_path,
        0,
        lambda columns: {**columns, "class": number, "image": columns["image"][0][: len(columns["image"][0]) - longer]},
    )
    key = written.records["train"][12].key.decode()

    assert refusal(tmp_path) == message(
        tmp_path, f"record 0 at byte {offset}, key {key}: class: expected 0 to 2, found {number}"
    )


def test_a_record_that_is_no_example(tmp_path: Path) -> None:
    write_dataset(tmp_path, image_format="raw")
    records = records_of(tmp_path)
    records[3] = b"x" * len(records[3])
    (tmp_path / SHARD).write_bytes(b"".join(map(frame, records)))

    assert refusal(tmp_path) == message(
        tmp_path,
        f"record 3 at byte {offset_of(records, 3)}, key unreadable: record: expected a tf.train.Example, "
        "found not a tf.train.Example: wire type 0 where 2 is expected",
    )


def test_a_shard_that_goes_away_while_it_is_read(tmp_path: Path) -> None:
    size = write_dataset(tmp_path, image_format="raw").manifest.splits["train"].shards[1].bytes
    batches = shardfeed.array_batches(tmp_path, "train", 37, epochs=1)
    (tmp_path / SHARD).unlink()

    with pytest.raises(shardfeed.DatasetError) as found:
        list(batches)

    assert str(found.value) == message(tmp_path, f"expected {size:,} bytes, found no such file")


def test_a_shard_that_is_cut_at_a_record_while_it_is_read(tmp_path: Path) -> None:
    write_dataset(tmp_path, image_format="raw")
    batches = shardfeed.array_batches(tmp_path, "train", 37, epochs=1)
    records = records_of(tmp_path)
    (tmp_path / SHARD).write_bytes(b"".join(map(frame, records[:9])))
    at, block, left = offset_of(records, 8), offset_of(records, 12) - offset_of(records, 8), len(frame(records[8]))

    with pytest.raises(shardfeed.DatasetError) as found:
        list(batches)

    assert str(found.value) == message(
        tmp_path, f"from byte {at} on: expected 4 records in {block:,} bytes, found 1 in {left:,}"
    )


def test_a_missing_shard_is_named_before_the_first_batch(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / SHARD).unlink()

    with pytest.raises(shardfeed.DatasetError, match="found no such file"):
        shardfeed.array_batches(tmp_path, "train", 8)


def test_reading_stops_where_the_stream_is_left(tmp_path: Path) -> None:
    import threading

    write_dataset(tmp_path)
    stream = iter(shardfeed.array_batches(tmp_path, "train", 8))
    next(stream)
    assert any(thread.name.startswith("shardfeed-") for thread in threading.enumerate())

    stream.close()  # type: ignore[attr-defined]

    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("shardfeed-")]
