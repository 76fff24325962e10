"""One-hot labels, and batches as dicts with every column of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
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


def test_size_is_what_is_stored_whatever_is_handed_out(tmp_path: Path) -> None:
    written = write_dataset(tmp_path, size=None, splits={"validation": 6})

    (found,) = batches(tmp_path, "validation", 6, as_dict=True, image_size=5, crop="center")

    assert found["size"].tolist() == [list(record.pixels.shape[:2]) for record in written.records["validation"]]


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize(
    ("cache", "batch_size", "split", "host", "label", "crop", "as_dict"),
    [
        (None, 6, "train", None, "int", None, True),
        ("decoded", 129, "train", None, "onehot", "random_resized", False),
        (None, 129, "validation", (0, 20), "onehot", "center", True),
        ("decoded", 6, "validation", (0, 20), "int", None, False),
    ],
    ids=str,
)
def test_shapes_are_static_whatever_is_combined(
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
    options: dict[str, Any] = {"host": host, "label": label, "crop": crop, "as_dict": as_dict, "cache": cache}
    dataset = shardfeed.load(written.path, split, batch_size * hosts, image_size=9, **options)

    expected = {
        "image": tf.TensorSpec([batch_size, 9, 9, 3], tf.uint8),
        "label": tf.TensorSpec(*(([batch_size], tf.int32) if label == "int" else ([batch_size, 3], tf.float32))),
        "key": tf.TensorSpec([batch_size], tf.string),
        "size": tf.TensorSpec([batch_size, 2], tf.int64),
    }
    if split == "validation":
        expected["weight"] = tf.TensorSpec([batch_size], tf.float32)
    tuples = tuple(spec for name, spec in expected.items() if name not in ("key", "size"))
    assert dataset.element_spec == (expected if as_dict else tuples)
