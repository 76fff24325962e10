"""Exact evaluation and adapters under Keras on TensorFlow: one device, and MirroredStrategy with
four.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.datasets import Written
from tests.training.exactness import BATCH, COMPILED, evaluate, of_all_hosts, tiny_model, truth
from tests.training.programs import run


@pytest.fixture(scope="module")
def mirrored(dataset: Path) -> Any:
    """What a process with four devices saw."""
    return run("tf_mirrored.py", dataset)


@pytest.mark.parametrize(("hosts", "executions"), COMPILED.items(), ids=str)
def test_evaluation_is_exact_for_any_number_of_hosts(written: Written, hosts: int, executions: dict[str, int]) -> None:
    model = tiny_model(**executions)
    pixels, labels = zip(*((record.pixels, record.label) for record in written.records["validation"]), strict=True)

    found = evaluate(model, of_all_hosts(str(written.path), "validation", BATCH, hosts))

    assert found == pytest.approx(truth(model, np.stack(pixels), np.array(labels)), rel=1e-6)


def test_evaluation_under_four_replicas_is_exact(mirrored: Any) -> None:
    assert list(mirrored["evaluations"]) == ["load", "distribute"]
    for found in mirrored["evaluations"].values():
        assert found == pytest.approx(mirrored["truth"], rel=1e-6)


def test_the_strategy_in_scope_is_the_accelerator(mirrored: Any) -> None:
    assert mirrored["accelerator"] == [4, "CPU, 4 replicas of MirroredStrategy, which is in scope."]


def test_distribute_gives_each_replica_its_share_of_the_records_of_a_step(mirrored: Any) -> None:
    assert mirrored["steps"] == [[[[6, 8, 8, 3]] * 4, True]] * 20


def test_a_distributed_stream_that_is_read_twice_is_warned_of(mirrored: Any) -> None:
    assert mirrored["repeated"] == ["train: this stream of epochs=1 was read"]


def test_fit_takes_distribute_and_load_alike(mirrored: Any) -> None:
    assert mirrored["fit on distribute"] == pytest.approx(mirrored["fit on load"], rel=1e-6)
