"""Which splits are trained on and which are evaluated, if ``training`` is not given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.arguments import EVALUATED
from tests.kit.datasets import write_dataset
from tests.reader.streams import READERS, by_reader

ODD = ("training", "Train", "train_a", "Validation", "all")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    splits = dict.fromkeys(("train", *EVALUATED, *ODD), 8)
    return write_dataset(tmp_path_factory.mktemp("dataset"), image_format="raw", splits=splits).path


@by_reader(
    "split,training,columns",
    [
        ("train", None, 2), *((split, None, 3) for split in EVALUATED),
        *((split, training, columns) for split in ("all", "test", "train") for training, columns in ((True, 2), (False, 3))),
    ],
    load=[1, -6],
)  # fmt: skip
def test_the_name_decides_unless_training_does(
    folder: Path, reader: Any, split: str, training: bool | None, columns: int
) -> None:
    assert len(next(iter(reader(folder, split, 4, training=training)))) == columns


@READERS
@pytest.mark.parametrize("split", ODD)
def test_any_other_name_needs_training_to_be_said(folder: Path, reader: Any, split: str) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        reader(folder, split, 4)

    assert str(found.value) == (
        f"split '{split}': its name does not say what it is for. Pass training=True for an endless stream of (x, y), or "
        "training=False for one exact pass of (x, y, w)."
    )


def test_input_fn_refuses_another_name_at_once(folder: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^split 'all': its name does not say what it is for\. "):
        shardfeed.input_fn(folder, "all")

    assert len(next(iter(shardfeed.input_fn(folder, "all", training=True)({"batch_size": 4})))) == 2
