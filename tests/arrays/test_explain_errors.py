"""``explain_errors``: TensorFlow's error becomes one that names the record, in a loop and inside ``fit``."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.arrays.blocks import BlockReader
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.tfrecord import frame
from shardfeed.tfdata import explain_errors
from tests.arrays.test_damage import SHARD, message, offset_of, records_of, rewrite
from tests.kit.datasets import write_dataset


def loop(path: Path) -> None:
    for _ in shardfeed.load(path, "train", 37, epochs=1):
        pass


def fit(path: Path) -> None:
    model = keras.Sequential([keras.Input((8, 12, 3)), keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(shardfeed.load(path, "train", 37), steps_per_epoch=1, verbose=0)


reading = pytest.mark.parametrize("read", [loop, fit], ids=["a loop", "fit"])


def explained(path: Path, read: Callable[[Path], None], split: str | None = None) -> pytest.ExceptionInfo[Exception]:
    with pytest.raises(shardfeed.DatasetError) as found, shardfeed.explain_errors(path, split):
        read(path)
    return found


@reading
def test_a_flipped_bit(tmp_path: Path, read: Callable[[Path], None]) -> None:
    written = write_dataset(tmp_path)
    offset = offset_of(records_of(tmp_path), 6)
    data = bytearray((tmp_path / SHARD).read_bytes())
    data[offset + 100] ^= 1
    (tmp_path / SHARD).write_bytes(data)

    found = explained(tmp_path, read)

    crcs = re.search(r"expected ([0-9a-f]{8}), found ([0-9a-f]{8})", str(found.value))
    key = written.records["train"][12 + 6].key.decode()
    assert crcs and str(found.value) == message(
        tmp_path, f"record 6 at byte {offset}, key {key}: crc of the data: expected {crcs[1]}, found {crcs[2]}"
    )
    assert isinstance(found.value.__cause__, tf.errors.DataLossError)


@reading
def test_an_image_that_cannot_be_decoded(tmp_path: Path, read: Callable[[Path], None]) -> None:
    written = write_dataset(tmp_path)
    offset = rewrite(tmp_path, 6, lambda columns: {**columns, "image": b"x" * len(columns["image"][0])})
    key = written.records["train"][12 + 6].key.decode()

    found = explained(tmp_path, read)

    start = f"record 6 at byte {offset}, key {key}: image: expected a jpeg image that decodes, found Unknown image file"
    assert str(found.value).startswith(f"{tmp_path}/{SHARD} is damaged: {start}")
    assert "[Op:" not in str(found.value) and "{{" not in str(found.value)
    assert str(found.value).endswith(message(tmp_path, "").partition("damaged: ")[2])
    assert isinstance(found.value.__cause__, tf.errors.InvalidArgumentError)


@reading
def test_a_record_that_is_no_example(tmp_path: Path, read: Callable[[Path], None]) -> None:
    write_dataset(tmp_path)
    records = records_of(tmp_path)
    offset = offset_of(records, 6)
    records[6] = b"\x87" * len(records[6])
    (tmp_path / SHARD).write_bytes(b"".join(map(frame, records)))

    found = explained(tmp_path, read)

    start = f"record 6 at byte {offset}, key unreadable: record: expected a tf.train.Example, found "
    assert str(found.value).startswith(f"{tmp_path}/{SHARD} is damaged: {start}")


@pytest.mark.parametrize("label", ["int", "onehot"])
def test_a_class_that_is_not_one(tmp_path: Path, label: str) -> None:
    written = write_dataset(tmp_path)
    offset = rewrite(tmp_path, 6, lambda columns: {**columns, "class": 3})
    key = written.records["train"][12 + 6].key.decode()

    def read(path: Path) -> None:
        for _ in shardfeed.load(path, "train", 37, epochs=1, label=label):
            pass

    assert str(explained(tmp_path, read).value) == message(
        tmp_path, f"record 6 at byte {offset}, key {key}: class: expected 0 to 2, found 3"
    )


def test_a_flipped_bit_in_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "dataset"
    key = write_dataset(path).records["train"][12 + 6].key.decode()
    offset = offset_of(records_of(path), 6)
    train = shardfeed.load(path, "train", 37, epochs=1, cache=tmp_path / "copies")
    (copy,) = (tmp_path / "copies").rglob(f"*{SHARD}")
    data = bytearray(copy.read_bytes())
    data[offset + 100] ^= 1
    copy.write_bytes(data)

    found = explained(path, lambda _: list(train) and None)

    crcs = re.search(r"expected ([0-9a-f]{8}), found ([0-9a-f]{8})", str(found.value))
    assert crcs and str(found.value) == (
        f"{copy} is damaged: record 6 at byte {offset}, key {key}: crc of the data: expected {crcs[1]}, found {crcs[2]}. "
        f"It is a copy of {path}, made by cache=: delete it, and the next load copies it again."
    )
    copy.unlink()
    assert len(list(shardfeed.load(path, "train", 37, epochs=1, cache=tmp_path / "copies"))) == 1


def test_an_image_that_cannot_be_decoded_is_named_in_the_original_of_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "dataset"
    write_dataset(path)
    rewrite(path, 6, lambda columns: {**columns, "image": b"x" * len(columns["image"][0])})
    renew_checksum(path)

    found = explained(
        path, lambda _: list(shardfeed.load(path, "train", 37, epochs=1, cache=tmp_path / "copies")) and None
    )

    assert str(found.value).startswith(f"{path}/{SHARD} is damaged: record 6 at byte ")


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp"])
def test_images_are_looked_into_without_pillow(
    tmp_path: Path, image_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_dataset(tmp_path, image_format=image_format)
    offset = rewrite(tmp_path, 6, lambda columns: {**columns, "image": b"\0" * len(columns["image"][0])})
    key = written.records["train"][12 + 6].key.decode()
    monkeypatch.setitem(sys.modules, "PIL", None)

    found = explained(tmp_path, loop)

    what = f"record 6 at byte {offset}, key {key}: image: expected a {image_format} image that decodes, found "
    assert str(found.value).startswith(f"{tmp_path}/{SHARD} is damaged: {what}")


def renew_checksum(path: Path) -> None:
    """Make the manifest that of the shard as it is now, as of a build that wrote it so."""
    manifest = path / "manifest.json"
    (shard,) = (one for one in shardfeed.info(path).splits["train"].shards if one.file == SHARD)
    crc = to_hex(crc32c((path / SHARD).read_bytes()))
    manifest.write_text(manifest.read_text().replace(shard.crc32c, crc))


def test_a_shard_that_goes_away(tmp_path: Path) -> None:
    size = write_dataset(tmp_path).manifest.splits["train"].shards[1].bytes
    train = shardfeed.load(tmp_path, "train", 37, epochs=1)
    (tmp_path / SHARD).unlink()

    found = explained(tmp_path, lambda _: list(train) and None)

    assert str(found.value) == message(tmp_path, f"expected {size:,} bytes, found no such file")


def test_the_first_of_several_damages_in_the_order_of_the_shards_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    for name in (SHARD.replace("00001-of", "00002-of"), SHARD):
        data = bytearray((tmp_path / name).read_bytes())
        data[100] ^= 1
        (tmp_path / name).write_bytes(data)

    assert f"{SHARD} is damaged: record 0 " in str(explained(tmp_path, loop).value)


def test_an_error_of_the_model_passes_unchanged_and_nothing_is_read(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / SHARD).write_bytes(b"damaged")

    with pytest.raises(tf.errors.InvalidArgumentError), shardfeed.explain_errors(tmp_path):
        tf.debugging.assert_equal(1, 2)
    with pytest.raises(KeyError), shardfeed.explain_errors(tmp_path):
        raise KeyError("loss")


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp", "raw"])
@pytest.mark.parametrize("channels", [1, 3], ids=["gray", "rgb"])
def test_an_error_behind_the_reader_passes_with_a_warning(tmp_path: Path, image_format: str, channels: int) -> None:
    write_dataset(tmp_path, image_format=image_format, channels=channels)

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


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError,
        tf.errors.ResourceExhaustedError,
        tf.errors.PermissionDeniedError,
        tf.errors.UnknownError,
        tf.errors.CancelledError,
        tf.errors.AbortedError,
        tf.errors.InternalError,
    ],
)
def test_what_damage_does_not_look_like_passes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[tf.errors.OpError]
) -> None:
    write_dataset(tmp_path)
    monkeypatch.setattr(BlockReader, "read", lambda *_: pytest.fail("a shard was read"))

    with pytest.raises(error), shardfeed.explain_errors(tmp_path):
        raise error(None, None, "{{function_node __wrapped__IteratorGetNext}} 503: try again")


def test_it_says_that_it_looks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_dataset(tmp_path)
    data = bytearray((tmp_path / SHARD).read_bytes())
    data[100] ^= 1
    (tmp_path / SHARD).write_bytes(data)

    explained(tmp_path, loop, "train")

    assert [record.getMessage() for record in caplog.records if record.name == "shardfeed"] == [
        f"Reading failed. Looking for the damaged record in 3 shards of {tmp_path}, for at most 300 s."
    ]


def test_it_looks_for_five_minutes_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(tmp_path)
    data = bytearray((tmp_path / "train-00002-of-00003.tfrecord").read_bytes())
    data[100] ^= 1
    (tmp_path / "train-00002-of-00003.tfrecord").write_bytes(data)
    now = itertools.count(0, 60)  # a minute passes at each look
    monkeypatch.setattr(explain_errors, "clock", lambda: next(now))

    with (
        pytest.warns(UserWarning) as warned,
        pytest.raises(tf.errors.DataLossError),
        shardfeed.explain_errors(tmp_path, "train"),
    ):
        loop(tmp_path)

    assert str(warned[0].message) == (
        f"reading failed, and no damage was found in the first 300 s of looking through train at {tmp_path}. "
        f"shardfeed verify {tmp_path} --deep looks through all of it."
    )


def test_only_the_split_that_is_named_is_looked_into(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"broken": 5, "train": 37})
    for name in ("broken-00000-of-00003.tfrecord", SHARD):
        data = bytearray((tmp_path / name).read_bytes())
        data[100] ^= 1
        (tmp_path / name).write_bytes(data)

    assert "broken-00000" in str(explained(tmp_path, loop).value)
    assert SHARD in str(explained(tmp_path, loop, "train").value)


def test_nothing_is_changed_where_nothing_fails(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with shardfeed.explain_errors(shardfeed.info(tmp_path)):
            loop(tmp_path)
