"""Which splits are trained on and which are evaluated, if ``training`` is not given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.arguments import is_training
from tests.kit.datasets import write_dataset
from tests.reader.streams import READERS

EVALUATED = ("validation", "valid", "val", "dev", "test", "eval")
ODD = ("training", "Train", "train_a", "Validation", "all")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    splits = dict.fromkeys(("train", "test", "all"), 8)
    return write_dataset(tmp_path_factory.mktemp("dataset"), image_format="raw", splits=splits).path


def test_the_name_decides_unless_training_does() -> None:
    assert is_training("train", None) and not any(is_training(split, None) for split in EVALUATED)
    for split in ("train", "test", "all"):
        assert is_training(split, True) and not is_training(split, False)


@pytest.mark.parametrize("split", ODD)
def test_any_other_name_needs_training_to_be_said(split: str) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        is_training(split, None)

    assert str(found.value) == (
        f"split '{split}': its name does not say what it is for. Pass training=True for an endless stream of (x, y), or "
        "training=False for one exact pass of (x, y, w)."
    )


@READERS
def test_both_readers_follow_the_name_and_training(folder: Path, reader: Any) -> None:
    for split, training, columns in (("test", None, 3), ("all", True, 2), ("train", False, 3)):
        assert len(next(iter(reader(folder, split, 4, training=training)))) == columns
    with pytest.raises(shardfeed.UsageError, match=r"^split 'all': its name does not say what it is for\. "):
        reader(folder, "all", 4)


def test_input_fn_refuses_another_name_at_once(folder: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^split 'all': its name does not say what it is for\. "):
        shardfeed.input_fn(folder, "all")

    assert len(next(iter(shardfeed.input_fn(folder, "all", training=True)({"batch_size": 4})))) == 2
