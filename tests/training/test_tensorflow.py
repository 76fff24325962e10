"""Exact evaluation and adapters under Keras on TensorFlow: one device, and a MirroredStrategy of two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.kit.datasets import Written
from tests.training.exactness import BATCH, evaluate, load_quietly, tiny_model, truth
from tests.training.programs import run


@pytest.fixture(scope="module")
def mirrored(dataset: Path) -> Any:
    """What a process with two devices saw."""
    return run("tf_mirrored.py", dataset)


@pytest.mark.parametrize(("hosts", "executions"), [(1, {"steps_per_execution": 3}), (3, {})], ids=str)
def test_evaluation_is_exact_for_any_number_of_hosts(written: Written, hosts: int, executions: dict[str, int]) -> None:
    model = tiny_model(**executions)
    pixels, labels = zip(*((record.pixels, record.label) for record in written.records["validation"]), strict=True)
    shares = [load_quietly(written.path, "validation", BATCH, host=(host, hosts)) for host in range(hosts)]
    batches, *others = shares
    if others:  # as a cluster sees them: each host's batch of a step, one below the other
        batches = tf.data.Dataset.zip(*shares).map(
            lambda *parts: tuple(tf.concat(column, axis=0) for column in zip(*parts, strict=True))
        )

    found = evaluate(model, batches)

    assert found == pytest.approx(truth(model, np.stack(pixels), np.array(labels)), rel=1e-6)


def test_evaluation_under_two_replicas_is_exact(mirrored: Any) -> None:
    assert list(mirrored["evaluations"]) == ["load", "distribute"]
    for found in mirrored["evaluations"].values():
        assert found == pytest.approx(mirrored["truth"], rel=1e-6)


def test_the_strategy_in_scope_is_the_accelerator(mirrored: Any) -> None:
    assert mirrored["accelerator"] == [2, "CPU, 2 replicas of MirroredStrategy, which is in scope."]


def test_distribute_gives_each_replica_its_share_of_the_records_of_a_step(mirrored: Any) -> None:
    assert mirrored["steps"] == [[[[12, 8, 8, 3]] * 2, True]] * 20


def test_a_distributed_stream_that_is_read_twice_is_warned_of(mirrored: Any) -> None:
    assert mirrored["repeated"] == ["train: this stream of epochs=1 was read"]


def test_fit_takes_distribute_and_load_alike(mirrored: Any) -> None:
    assert mirrored["fit on distribute"] == pytest.approx(mirrored["fit on load"], rel=1e-6)
