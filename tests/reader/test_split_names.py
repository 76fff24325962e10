"""Which splits are trained on and which are evaluated where ``training`` is not said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.arguments import EVALUATED
from tests.kit.datasets import write_dataset

ODD = ("training", "Train", "train_a", "Validation", "all")
READERS = pytest.mark.parametrize("reader", [shardfeed.load, shardfeed.array_batches], ids=["load", "array_batches"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    splits = dict.fromkeys(("train", *EVALUATED, *ODD), 8)
    return write_dataset(tmp_path_factory.mktemp("dataset"), image_format="raw", splits=splits).path


@READERS
@pytest.mark.parametrize("split", EVALUATED)
def test_splits_of_a_known_name_are_evaluated(folder: Path, reader: Any, split: str) -> None:
    assert [len(batch) for batch in reader(folder, split, 4)] == [3, 3]


@READERS
def test_the_split_train_is_trained_on(folder: Path, reader: Any) -> None:
    assert len(next(iter(reader(folder, "train", 4)))) == 2


@READERS
@pytest.mark.parametrize("split", ODD)
def test_any_other_name_needs_training_to_be_said(folder: Path, reader: Any, split: str) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        reader(folder, split, 4)

    assert str(found.value) == (
        f"split '{split}': its name does not say what it is for. Pass training=True for an endless stream of (x, y), or "
        "training=False for one exact pass of (x, y, w)."
    )


@READERS
@pytest.mark.parametrize(("training", "columns"), [(True, 2), (False, 3)], ids=["training", "evaluation"])
def test_training_decides_for_any_name(folder: Path, reader: Any, training: bool, columns: int) -> None:
    for split in ("all", "test", "train"):
        assert len(next(iter(reader(folder, split, 4, training=training)))) == columns


def test_input_fn_refuses_another_name_at_once(folder: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^split 'all': its name does not say what it is for\. "):
        shardfeed.input_fn(folder, "all")

    assert len(next(iter(shardfeed.input_fn(folder, "all", training=True)({"batch_size": 4})))) == 2
