"""``shardfeed.testing``: its dataset is one in every respect."""

from __future__ import annotations

from pathlib import Path

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
