"""One-hot labels, and batches as dicts with every column of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import decode_example, encode_example
from shardfeed.format.tfrecord import frame, scan
from tests.kit.datasets import Written, write_dataset
from tests.reader.streams import lossless


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return lossless(tmp_path_factory.mktemp("dataset"), splits={"train": 20, "validation": 10})


def batches(path: Path, split: str, batch_size: int, count: int = -1, **options: Any) -> list[Any]:
    return list(shardfeed.load(path, split, batch_size, **options).take(count).as_numpy_iterator())


def test_one_hot_labels_have_a_one_at_the_class(written: Written) -> None:
    (_, labels, _), *_ = batches(written.path, "validation", 10, label="onehot")

    expected = np.zeros((10, 3), np.float32)
    for row, record in enumerate(written.records["validation"]):
        expected[row, record.label] = 1
    assert labels.dtype == np.float32 and np.array_equal(labels, expected)


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
def test_a_dict_names_each_column_and_padding_is_empty(written: Written) -> None:
    first, second = batches(written.path, "validation", 6, as_dict=True)

    records = written.records["validation"]
    assert list(first) == list(second) == ["image", "label", "key", "size", "weight"]
    assert np.array_equal(first["image"], [record.pixels for record in records[:6]])
    assert first["label"].tolist() == [record.label for record in records[:6]]
    assert first["key"].tolist() == [record.key for record in records[:6]]
    assert first["size"].tolist() == [[8, 12]] * 6
    assert first["weight"].tolist() == [np.float32(1.2)] * 6
    assert second["key"].tolist() == [*(record.key for record in records[6:]), b"", b""]
    assert second["size"].tolist() == [*[[8, 12]] * 4, [0, 0], [0, 0]]
    assert second["weight"].tolist() == [*[np.float32(1.2)] * 4, 0, 0]
    assert not second["image"][4:].any() and not second["label"][4:].any()


def test_in_training_there_is_no_weight(written: Written) -> None:
    (first,) = batches(written.path, "train", 20, 1, as_dict=True)

    assert list(first) == ["image", "label", "key", "size"]
    assert sorted(first["key"]) == sorted(record.key for record in written.records["train"])


def test_size_is_what_is_stored_whatever_is_handed_out(tmp_path: Path) -> None:
    written = write_dataset(tmp_path, size=None, splits={"validation": 6})

    (found,) = batches(tmp_path, "validation", 6, as_dict=True, image_size=5, crop="center")

    assert found["size"].tolist() == [list(record.pixels.shape[:2]) for record in written.records["validation"]]


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize("cache", [None, "decoded"], ids=str)
@pytest.mark.parametrize("batch_size", [6, 129])
@pytest.mark.parametrize(("split", "host"), [("train", None), ("validation", (0, 20))], ids=str)
@pytest.mark.parametrize(
    ("label", "crop", "as_dict"),
    [("int", None, True), ("onehot", "center", False), ("onehot", "random_resized", True)],
    ids=str,
)
def test_shapes_are_static_in_every_combination(
    written: Written,
    cache: str | None,
    batch_size: int,
    split: str,
    host: Any,
    label: str,
    crop: str | None,
    as_dict: bool,
) -> None:
    hosts = host[1] if host else 1
    crop = None if split != "train" and crop == "random_resized" else crop
    dataset = shardfeed.load(
        written.path,
        split,
        batch_size * hosts,
        host=host,
        label=label,
        crop=crop,
        as_dict=as_dict,
        image_size=9,
        cache=cache,
    )

    weight = () if split == "train" else (("weight", tf.TensorSpec([batch_size], tf.float32)),)
    expected = {
        "image": tf.TensorSpec([batch_size, 9, 9, 3], tf.uint8),
        "label": tf.TensorSpec([batch_size], tf.int32)
        if label == "int"
        else tf.TensorSpec([batch_size, 3], tf.float32),
        "key": tf.TensorSpec([batch_size], tf.string),
        "size": tf.TensorSpec([batch_size, 2], tf.int64),
    } | dict(weight)
    names = ("image", "label", "weight")
    assert dataset.element_spec == (
        expected if as_dict else tuple(expected[name] for name in names if name in expected)
    )


def with_columns(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A dataset whose validation records also hold ``rows``, as a table of metadata would add."""
    written = write_dataset(path, splits={"validation": len(rows)}, shards=1, image_format="raw")
    (shard,) = written.manifest.splits["validation"].shards
    with open(path / shard.file, "rb") as file:
        records = [data for _, data in scan(file)]
    framed = [frame(encode_example({**decode_example(old), **row})) for old, row in zip(records, rows, strict=True)]
    (path / shard.file).write_bytes(data := b"".join(framed))
    sizes = [len(one) for one in framed]
    blocks = [[len(sizes[i : i + 4]), sum(sizes[i : i + 4])] for i in range(0, len(sizes), 4)]
    manifest = (path / "manifest.json").read_text()
    for old, new in (
        (f'"bytes":{shard.bytes}', f'"bytes":{len(data)}'),
        (shard.crc32c, to_hex(crc32c(data))),
        (str([list(block) for block in shard.blocks]).replace(" ", ""), str(blocks).replace(" ", "")),
    ):
        assert old in manifest
        manifest = manifest.replace(old, new)
    (path / "manifest.json").write_text(manifest)
    return path


ROWS = [
    {
        "age": 30 + i,
        "box": [0.5, i / 2],
        "tags": [b"a"] * (i % 3 + 1),
        "note": f"n{i}".encode(),
        "marks": [7] * (i % 2 + 1),
    }
    for i in range(6)
]


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize("cache", [None, "decoded"], ids=str)
def test_further_columns_come_along_and_those_of_varying_length_are_filled_up(
    tmp_path: Path, cache: str | None
) -> None:
    path = with_columns(tmp_path, ROWS)

    dataset = shardfeed.load(path, "validation", 4, as_dict=True, max_len=4, cache=cache)
    first, second = dataset.as_numpy_iterator()

    assert first["age"].tolist() + second["age"].tolist() == [30, 31, 32, 33, 34, 35, 0, 0]
    assert first["box"].dtype == np.float32 and first["box"].tolist() == [[0.5, i / 2] for i in range(4)]
    assert first["note"].tolist() == [b"n0", b"n1", b"n2", b"n3"]
    assert first["tags"].tolist() == [[b"a"] * n + [b""] * (4 - n) for n in (1, 2, 3, 1)]
    assert second["marks"].tolist() == [[7, 0, 0, 0], [7, 7, 0, 0], [0] * 4, [0] * 4]
    assert {name: spec.shape.as_list() for name, spec in dataset.element_spec.items()} == {
        "age": [4], "box": [4, 2], "image": [4, 8, 12, 3], "key": [4], "label": [4], "marks": [4, 4], "note": [4],
        "size": [4, 2], "tags": [4, 4], "weight": [4],
    }  # fmt: skip


def test_a_column_of_varying_length_needs_max_len(tmp_path: Path) -> None:
    path = with_columns(tmp_path, ROWS)

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.load(path, "validation", 6, as_dict=True)

    assert str(found.value) == (
        "as_dict=True: column marks has 1 to 2 values a record. Pass max_len=, to which it is padded, for example max_len=2."
    )


def test_more_values_than_max_len_stop_the_stream(tmp_path: Path) -> None:
    path = with_columns(tmp_path, ROWS)

    with pytest.raises(tf.errors.InvalidArgumentError):
        batches(path, "validation", 6, as_dict=True, max_len=2)


def test_a_column_that_grows_after_the_first_block_stops_the_stream(tmp_path: Path) -> None:
    path = with_columns(tmp_path, [{"tag": b"a"}] * 4 + [{"tag": [b"a", b"b"]}])

    with pytest.raises(tf.errors.InvalidArgumentError, match="tag"):
        batches(path, "validation", 5, as_dict=True)
