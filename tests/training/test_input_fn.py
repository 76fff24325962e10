"""``input_fn``: the function of ``params`` that TPUEstimator called, and what it is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import shardfeed
from tests.kit.datasets import Written
from tests.reader.streams import numbers


def test_the_batch_size_is_the_hosts_own(dataset: Path) -> None:
    batches = shardfeed.input_fn(dataset, "train")({"batch_size": 25, "context": tf.distribute.InputContext(4, 0, 8)})

    assert batches.element_spec == (tf.TensorSpec([25, 8, 8, 3], tf.uint8), tf.TensorSpec([25], tf.int32))


def test_without_a_context_there_is_one_host(written: Written) -> None:
    read = shardfeed.input_fn(written.path, "train", seed=3)
    found = numbers(read({"batch_size": 8, "context": None}), written, "train", 30)

    assert found == numbers(shardfeed.load(written.path, "train", 8, seed=3), written, "train", 30)


def test_the_hosts_share_the_records(written: Written) -> None:
    read = shardfeed.input_fn(written.path, "validation", eval_remainder="pad")

    contexts = [tf.distribute.InputContext(4, number, 32) for number in range(4)]
    found = [numbers(read({"batch_size": 10, "context": one}), written, "validation") for one in contexts]

    # 103 records: three hosts of 26 and one of 25, all of three batches.
    assert [len(host) for host in found] == [30] * 4
    assert sorted(number for host in found for number in host if number >= 0) == list(range(103))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (None, 'params=None: expected params["batch_size"], the records of one batch on this host.'),
        ({}, 'params={}: expected params["batch_size"], the records of one batch on this host.'),
        ({"batch_size": 0}, 'params["batch_size"]=0: expected an integer of at least 1.'),
        (
            {"batch_size": 8, "context": 3},
            "host=3: expected a pair (index, count) such as (0, 8), a tf.distribute.InputContext, or 'auto'.",
        ),
    ],
    ids=["no params", "no batch size", "zero", "no context"],
)
def test_params_that_cannot_be_are_refused(dataset: Path, params: dict[str, Any], message: str) -> None:
    with pytest.raises(shardfeed.UsageError, match=f"^{re.escape(message)}$"):
        shardfeed.input_fn(dataset, "train")(params)


def test_padding_is_warned_of_at_the_callers_line(dataset: Path) -> None:
    read = shardfeed.input_fn(dataset, "validation")

    with pytest.warns(UserWarning, match="17 rows of weight 0 fill up the last batch of validation") as warned:
        read({"batch_size": 40})

    assert [one.filename for one in warned] == [__file__]


def test_another_split_is_refused_at_once(dataset: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^split 'test' is not in the dataset at "):
        shardfeed.input_fn(dataset, "test")


def test_an_unknown_option_is_refused_at_once(dataset: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sed'"):
        shardfeed.input_fn(dataset, "train", sed=1)


def test_the_host_is_not_an_option(dataset: Path) -> None:
    message = 'input_fn(…, host=…): params["context"] says which host this is. Leave host out.'

    with pytest.raises(shardfeed.UsageError, match=f"^{re.escape(message)}$"):
        shardfeed.input_fn(dataset, "train", host=(0, 2))
