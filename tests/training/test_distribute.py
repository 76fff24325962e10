"""What ``distribute`` refuses; what it gives is in ``test_tensorflow.py``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import shardfeed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": (0, 2)}, "distribute(…, host=…): the strategy says which host this is. Leave host out."),
        (
            {"eval_remainder": "partial"},
            "distribute(…, eval_remainder=…): each replica needs a batch of the same size in each step. "
            "Leave eval_remainder out.",
        ),
    ],
    ids=["host", "eval_remainder"],
)
def test_options_that_the_strategy_decides_are_refused(dataset: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(shardfeed.UsageError, match=f"^{re.escape(message)}$"):
        shardfeed.distribute(tf.distribute.get_strategy(), dataset, "validation", 8, **options)


@pytest.mark.parametrize("strategy", [None, "mirrored"], ids=repr)
def test_what_is_no_strategy_is_refused(dataset: Path, strategy: Any) -> None:
    message = (
        f"strategy={strategy!r}: expected a strategy of tf.distribute, such as detect_accelerator().strategy where Keras runs on "
        "TensorFlow. On JAX, give what load gives to fit: Keras' distribution shares it out."
    )

    with pytest.raises(shardfeed.UsageError, match=f"^{re.escape(message)}$"):
        shardfeed.distribute(strategy, dataset, "train", 8)


def test_padding_is_warned_of_at_the_callers_line(dataset: Path) -> None:
    with pytest.warns(UserWarning, match="17 rows of weight 0 fill up the last batch of validation") as warned:
        shardfeed.distribute(tf.distribute.get_strategy(), dataset, "validation", 40)

    assert [one.filename for one in warned] == [__file__]


def test_another_split_is_refused_before_anything_is_read(dataset: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^split 'test' is not in the dataset at "):
        shardfeed.distribute(tf.distribute.get_strategy(), dataset, "test", 8)


def test_the_default_strategy_is_one_host_and_one_replica(dataset: Path) -> None:
    batches = shardfeed.distribute(tf.distribute.get_strategy(), dataset, "train", 8)

    images, labels = next(iter(batches))
    assert (images.shape.as_list(), labels.shape.as_list()) == ([8, 8, 8, 3], [8])
