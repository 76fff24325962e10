"""``shardfeed.testing``: its dataset is one in every respect, and its checks notice what they are
for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.testing import assert_dataset_intact, assert_resumes, make_dataset


@pytest.mark.parametrize("channels", [1, 3], ids=["gray", "rgb"])
def test_a_made_dataset_is_whole_and_is_read_as_it_was_made(tmp_path: Path, channels: int) -> None:
    info = make_dataset(tmp_path, {"train": 50, "test": 1}, image_size=(6, 9), channels=channels)

    assert_dataset_intact(tmp_path)
    assert (info.image_shape, {name: split.num_records for name, split in info.splits.items()}) == (
        (6, 9, channels),
        {"test": 1, "train": 50},
    )
    ((images, labels, _),) = shardfeed.array_batches(info, "train", 50, training=False)
    assert labels.tolist() == [i % 3 for i in range(50)]
    # how bright it is tells the class
    assert np.array_equal(images.min(axis=(1, 2, 3)) // 96, labels)
    ((again, _, _),) = shardfeed.load(info, "train", 50, training=False).as_numpy_iterator()
    assert np.array_equal(again, images)


def test_the_same_arguments_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        make_dataset(tmp_path / name, {"train": 20}, seed=3)

    one, other = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "other"))
    assert one == other


def test_a_dataset_that_is_there_is_kept(tmp_path: Path) -> None:
    make_dataset(tmp_path)

    with pytest.raises(shardfeed.UsageError) as found:
        make_dataset(tmp_path)

    assert str(found.value) == f"{tmp_path} holds a dataset already. Name another folder."


NAMES = "expected one text or more, each once."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": ()}, f"classes=(): {NAMES}"),
        ({"classes": ("a", "b", "a")}, f"classes=('a', 'b', 'a'): {NAMES}"),
        ({"classes": ("a", 1)}, f"classes=('a', 1): {NAMES}"),
        ({"classes": ("a", "")}, f"classes=('a', ''): {NAMES}"),
        ({"classes": "abc"}, f"classes='abc': {NAMES}"),
        ({"classes": ("a", "\udcff")}, f"classes=('a', '\\udcff'): {NAMES}"),
        ({"classes": 3}, f"classes=3: {NAMES}"),
        (
            {"splits": {"train": 4, "bad name": 4}},
            "splits['bad name']: expected a name of a letter and up to 63 letters, digits and underscores.",
        ),
        (
            {"splits": {3: 4}},
            "splits[3]: expected a name of a letter and up to 63 letters, digits and underscores.",
        ),
        ({"splits": {"train": 0}}, "splits['train']=0: expected an integer of at least 1."),
        ({"splits": [("train", 4)]}, "splits=[('train', 4)]: expected a dict of names and numbers of records."),
        ({"channels": True}, "channels=True: expected 1 or 3."),
        ({"channels": 3.0}, "channels=3.0: expected 1 or 3."),
        ({"shards": 0}, "shards=0: expected an integer of at least 1."),
    ],
)
def test_an_argument_that_cannot_be_is_named_and_nothing_is_written(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        make_dataset(tmp_path / "new", **options)

    assert str(found.value) == message
    assert not (tmp_path / "new").exists()


def test_an_intact_dataset_passes_and_every_damage_of_another_is_listed(tmp_path: Path) -> None:
    make_dataset(tmp_path, {"train": 20})
    assert_dataset_intact(tmp_path)
    for index in range(2):
        shard = tmp_path / f"train-0000{index}-of-00002.tfrecord"
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)

    with pytest.raises(AssertionError) as found:
        assert_dataset_intact(tmp_path)

    *damages, verdict = str(found.value).splitlines()
    assert [line.partition(" ")[0] for line in damages] == [f"train-0000{i}-of-00002.tfrecord" for i in range(2)]
    assert verdict.startswith("2 ")


def test_no_dataset_is_no_intact_one(tmp_path: Path) -> None:
    with pytest.raises(shardfeed.DatasetError):
        assert_dataset_intact(tmp_path)


def count_from(start: int) -> Iterator[Any]:
    """Batches of every kind, numbered."""
    for step in itertools.count(start):
        yield {"x": np.full((2, 2), step, np.uint8), "more": (tf.constant([step, 0.0]), [b"%d" % step])}


def test_a_stream_that_resumes_passes() -> None:
    assert_resumes(count_from)


def one_late(start: int) -> Iterator[Any]:
    return count_from(start + (start == 5))


def ends(start: int) -> Iterator[Any]:
    return itertools.islice(count_from(start), 9 - start)


def other_type(start: int) -> Iterator[Any]:
    return (np.zeros(2, np.int32 if start == 3 else np.int64) for _ in range(20))


def other_shape(start: int) -> Iterator[Any]:
    return (np.zeros((1, 2) if start == 3 else 2) for _ in range(20))


def other_columns(start: int) -> Iterator[Any]:
    return ({"x": 1, "y": 2} if start == 3 else {"x": 1} for _ in range(20))


@pytest.mark.parametrize(
    ("make_batches", "steps", "message"),
    [
        (one_late, 8, r"step 5 differs with start_step=5 from a run from 0: batch\['x'\]"),
        (ends, 10, "start_step=0: step 9 did not come"),
        (lambda start: ends(start) if start == 8 else count_from(start), 10, "start_step=8: step 9 did not come"),
        (other_type, 8, "step 3 differs with start_step=3 from a run from 0: batch"),
        (other_shape, 8, "step 3 differs with start_step=3 from a run from 0: batch"),
        (other_columns, 8, r"step 3 differs .*: found batch\['x'\], batch\['y'\], expected batch\['x'\]"),
    ],
    ids=["value", "short", "shorter when resumed", "type", "shape", "columns"],
)
def test_a_stream_that_does_not_resume_is_an_error_that_names_the_step(
    make_batches: Callable[[int], Iterable[Any]], steps: int, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_resumes(make_batches, steps=steps)
