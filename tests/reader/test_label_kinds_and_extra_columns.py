"""Several labels per record, none, and extra columns, in every reader; TensorFlow's parser says what is right."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.errors import UsageError
from shardfeed.format.columns import Column
from shardfeed.format.manifest import ImageInfo
from shardfeed.testing import write_dataset
from tests.reader.streams import READERS

KINDS = ("single", "multi", "none")
CLASSES = ("cat", "dog", "owl")
COLUMNS = (
    Column("age", "int64"),  # before class
    Column("blob", "bytes"),
    Column("box", "float", (2,)),
    Column("flags", "bool", (None,)),  # between class and image
    Column("good", "bool"),
    Column("later", "float"),  # behind image
    Column("names", "string", (None,)),
    Column("text", "string"),
    Column("words", "int64", (None,)),  # at the end
)
ROWS, LISTS = 23, {"flags": 2, "names": 3, "words": 4}


def example(i: int, kind: str) -> dict[str, Any]:
    classes = [number for number in range(3) if i >> number & 1]
    lists = {
        "flags": [i % 2] * (i % 3),
        "names": [f"n{i}".encode(), "é".encode(), b""][: i % 4],
        "words": [i, -i, 1 << 40][: i % 4],
    }
    labels: dict[str, Any] = {
        "single": {"class": i % 3, "label": CLASSES[i % 3].encode()},
        "multi": {"class": classes, "label": [CLASSES[number].encode() for number in classes]},
        "none": {},
    }[kind]
    return {
        "image": bytes([i]) * 12,
        "key": f"{i:03}.png".encode(),
        "size": [2, 2],
        **labels,
        "age": i - 5,
        "blob": bytes([255, i]),
        "box": [i / 2, -0.1],
        "good": i % 2,
        "later": i / 3,
        "text": f"Text ä {i}".encode(),
        **{name: values for name, values in lists.items() if values},
    }


@pytest.fixture(scope="module", params=KINDS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> shardfeed.DatasetInfo:
    path = tmp_path_factory.mktemp(request.param)
    manifest = write_dataset(
        path,
        {"train": [example(i, request.param) for i in range(ROWS)]},
        image=ImageInfo(2, 2, 3, "raw", (0.0,) * 3, (1.0,) * 3),
        classes=() if request.param == "none" else CLASSES,
        label_kind=request.param,
        block_records=4,
        fingerprint="ab" * 16,
        config={},
    )
    manifest = replace(manifest, columns=tuple(column.to_raw() for column in COLUMNS))
    (path / "manifest.json").write_bytes(manifest.to_json())
    return shardfeed.info(path)


def expected(kind: str) -> dict[bytes, dict[str, Any]]:
    """Each record's columns, padded, as they were given."""
    rows = {}
    for i in range(ROWS):
        made = example(i, kind)
        row = {column.name: made.get(column.name, []) for column in COLUMNS}
        for name, length in LISTS.items():
            filler: Any = b"" if name == "names" else 0
            row[name] = [*row[name], *[filler] * (length - len(row[name]))]
        row["good"], row["flags"] = bool(row["good"]), [bool(flag) for flag in row["flags"]]
        if kind == "single":
            row["label"] = made["class"]
        elif kind == "multi":
            row["label"] = [float(number in made["class"]) for number in range(3)]
        rows[made["key"]] = row
    return rows


def as_rows(batches: Iterable[dict[str, Any]]) -> dict[bytes, dict[str, Any]]:
    rows = {}
    for batch in batches:
        for row in range(len(batch["key"])):
            if batch["key"][row]:
                rows[batch["key"][row]] = {
                    name: np.asarray(values[row]).tolist() if name not in ("blob", "text") else values[row]
                    for name, values in batch.items()
                    if name not in ("key", "image", "size", "weight")
                }
    return rows


def close(one: dict[bytes, dict[str, Any]], other: dict[bytes, dict[str, Any]]) -> None:
    assert one.keys() == other.keys()
    for key, row in one.items():
        assert row.keys() == other[key].keys()
        for name, value in row.items():
            if name in ("box", "later"):
                assert np.array_equal(np.float32(value), np.float32(other[key][name])), (key, name)
            else:
                assert value == other[key][name], (key, name)


DTYPES = {"age": "int64", "box": "float32", "flags": "bool", "good": "bool", "later": "float32", "words": "int64"}


def batches_of(reader: Any, found: shardfeed.DatasetInfo, batch_size: int, **options: Any) -> list[dict[str, Any]]:
    batches = reader(found, "train", batch_size, as_dict=True, **options)
    return list(batches.as_numpy_iterator() if reader is shardfeed.load else batches)


@READERS
def test_batches_as_dicts_hold_every_column(found: shardfeed.DatasetInfo, reader: Any) -> None:
    # batches of one row: some hold no label at all
    batches = batches_of(reader, found, 1, training=False, max_len=LISTS)

    close(as_rows(batches), expected(found.label_kind))
    for name, dtype in DTYPES.items():
        assert {str(batch[name].dtype) for batch in batches} == {dtype}, name
    assert {batch["names"].shape for batch in batches} == {(1, 3)}


@READERS
def test_batches_of_decoded_images_hold_the_columns_that_are_asked_for(
    found: shardfeed.DatasetInfo, reader: Any
) -> None:
    batches = batches_of(reader, found, 4, max_len=4, columns=["words", "age"], epochs=1, cache="decoded")

    rows, every = as_rows(batches), expected(found.label_kind)
    assert len(rows) == 20
    for key, row in rows.items():
        assert row == {name: value for name, value in every[key].items() if name in ("label", "words", "age")}
    assert {"image", "key", "size"} <= set(batches[0])


def test_batches_for_fit_have_the_labels_of_their_kind(found: shardfeed.DatasetInfo) -> None:
    by_key = expected(found.label_kind)
    tf_batch = next(iter(shardfeed.load(found, "train", 8).as_numpy_iterator()))
    np_batch = next(iter(shardfeed.array_batches(found, "train", 8)))

    for batch in (tf_batch, np_batch):
        if found.label_kind == "none":
            assert batch.shape == (8, 2, 2, 3)
            continue
        x, y = batch
        assert (x.shape, str(y.dtype)) == ((8, 2, 2, 3), "int32" if found.label_kind == "single" else "float32")
        keys = [f"{image[0, 0, 0]:03}.png".encode() for image in x]
        assert y.tolist() == [by_key[key]["label"] for key in keys]


def test_a_random_record_holds_its_columns_in_the_order_of_the_manifest(found: shardfeed.DatasetInfo) -> None:
    """What all of them hold, after a build: ``tests/contract``."""
    (item,) = shardfeed.records(found, "train").__getitems__([7])

    assert list(item) == ["image", *["label"] * (found.label_kind != "none"), "key", *(c.name for c in COLUMNS)]
    row = expected(found.label_kind)[item["key"].encode()]
    assert (item["age"], item["blob"], item["good"]) == (row["age"], row["blob"], row["good"])
    assert {name: str(item[name].dtype) for name in ("box", "flags", "words")} == {
        "box": "float32",
        "flags": "bool",
        "words": "int64",
    }


def test_a_random_record_holds_the_chosen_columns_alone(found: shardfeed.DatasetInfo) -> None:
    usual = ["image", *["label"] * (found.label_kind != "none"), "key"]
    ds = shardfeed.records(found, "train", columns=usual)

    for item in (ds[7], *ds.__getitems__([7]), next(iter(ds))):
        assert list(item) == usual


def test_chosen_columns_travel_to_other_processes(found: shardfeed.DatasetInfo) -> None:
    item = pickle.loads(pickle.dumps(shardfeed.records(found, "train", columns=["age", "size"])))[1]

    assert list(item) == ["age", "size"] and item["size"].tolist() == [2, 2]


def test_labels_without_images_are_for_one_label_per_record(found: shardfeed.DatasetInfo) -> None:
    ds = shardfeed.records(found, "train")
    if found.label_kind == "single":
        assert ds.labels.tolist() == [i % 3 for i in range(ROWS)]
        assert found.class_weight("train")[0] == pytest.approx(23 / (3 * 8))
        return
    what = "any number" if found.label_kind == "multi" else "none"
    with pytest.raises(UsageError, match=f"has not one label but {what}"):
        _ = ds.labels
    wrong = {"multi": r"several labels, and .* Weigh in the loss", "none": r"no labels, and .* Leave it out"}
    with pytest.raises(UsageError, match=f"class_weight: the records of .* have {wrong[found.label_kind]}"):
        found.class_weight("train")
    part = found.splits["train[:10]"]
    if found.label_kind == "none":
        assert dict(part.class_counts) == {}
        return
    with pytest.raises(UsageError) as unknown:
        dict(part.class_counts)
    assert str(unknown.value) == (
        "class counts of train[:10] are not known: records have several labels, which only the tables (*.parquet) list. Count "
        "them there, or use those of train."
    )


def test_info_says_what_a_record_holds(found: shardfeed.DatasetInfo) -> None:
    features = dict(found.features)

    labels = {
        "single": {"class": "int64", "label": "string"},
        "multi": {"class": "int64[None]", "label": "string[None]"},
        "none": {},
    }[found.label_kind]
    assert features.items() >= labels.items()
    assert (
        features["image"] == "uint8[2, 2, 3]" and features["box"] == "float[2]" and features["words"] == "int64[None]"
    )
    assert ("class" in features) == bool(labels)
    assert "age, blob" in repr(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"as_dict": True}, "column flags holds lists of varying length"),
        ({"as_dict": True, "max_len": {"words": 3}}, "column flags holds lists"),
        ({"as_dict": True, "max_len": {"age": 3}}, "max_len="),
        ({"as_dict": True, "max_len": 0}, "max_len=0"),
        ({"as_dict": True, "columns": ["agee"]}, "columns="),
        ({"columns": ["age"]}, "columns is for batches with extra columns"),
        ({"max_len": 3}, "max_len is for batches with extra columns"),
    ],
    ids=str,
)
@READERS
@pytest.mark.parametrize("found", ["none"], indirect=True)
def test_wrong_columns_are_refused(found: shardfeed.DatasetInfo, reader: Any, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reader(found, "train", 5, **options)


@pytest.mark.parametrize("found", ["none"], indirect=True)
def test_one_name_stands_for_a_list_of_one(found: shardfeed.DatasetInfo) -> None:
    (batch,) = shardfeed.array_batches(found, "train", ROWS, epochs=1, as_dict=True, columns="age")

    assert "age" in batch


@pytest.mark.parametrize("found", ["none"], indirect=True)
def test_a_list_that_is_longer_than_max_len_is_never_cut(found: shardfeed.DatasetInfo) -> None:
    options: dict[str, Any] = {"as_dict": True, "max_len": 2, "columns": ["words"], "training": False}
    with (
        warnings.catch_warnings(),
        pytest.raises(tf.errors.InvalidArgumentError, match="column words: a list is longer than its max_len, 2"),
        shardfeed.explain_errors(found),
    ):
        warnings.simplefilter("error")  # of a disk that errs, for one
        list(shardfeed.load(found, "train", 23, **options))
    with pytest.raises(
        UsageError, match=r"^column words: a list of 3 values is longer than its max_len, 2\. Pass a larger"
    ):
        list(shardfeed.array_batches(found, "train", 23, **options))
