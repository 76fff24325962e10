"""``shardfeed.testing``: its dataset is one in every respect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.testing import make_dataset


@pytest.mark.parametrize("channels", [1, 3], ids=["gray", "rgb"])
def test_a_made_dataset_is_whole_and_is_read_as_it_was_made(tmp_path: Path, channels: int) -> None:
    info = make_dataset(tmp_path, {"train": 50, "test": 1}, image_size=(6, 9), channels=channels)

    assert shardfeed.verify(tmp_path, deep=True).findings == ()
    assert (info.image_shape, {name: split.num_records for name, split in info.splits.items()}) == (
        (6, 9, channels),
        {"test": 1, "train": 50},
    )
    ((images, labels, _),) = shardfeed.array_batches(info, "train", 50, training=False)
    assert labels.tolist() == [i % 3 for i in range(50)]
    assert np.array_equal(images.min(axis=(1, 2, 3)) // 96, labels)  # how bright it is tells the class
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
