"""Training and exact evaluation under Keras on JAX: eight devices of one process, and several real
processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

from tests.kit.sources import ROOT
from tests.training.programs import run, run_together

NO_HARDWARE = f"JAX {jax.__version__} sees no TPU and no GPU."


@pytest.fixture(scope="module")
def devices(dataset: Path) -> Any:
    """What a process with eight devices saw."""
    return run("jax_devices.py", dataset, backend="jax")


@pytest.fixture(scope="module")
def processes(dataset: Path) -> list[Any]:
    """What each of two processes with four devices saw."""
    return run_together("jax_process.py", 2, dataset, backend="jax")


def test_all_devices_become_replicas(devices: Any) -> None:
    assert devices["accelerator"] == ["cpu", 8, "jax", 1, f"CPU, 8 replicas. {NO_HARDWARE}"]


def test_detection_does_not_load_tensorflow() -> None:
    code = "import sys; sys.modules['tensorflow'] = None; import shardfeed; print(shardfeed.detect_accelerator())"
    env = {**os.environ, "KERAS_BACKEND": "jax"}

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)

    assert done.stdout == f"CPU, 1 replica. {NO_HARDWARE}\n", done.stderr


def test_a_distribution_that_is_set_is_kept(devices: Any) -> None:
    assert devices["kept"] is True


def test_evaluation_under_eight_replicas_is_exact(devices: Any) -> None:
    assert devices["evaluated"] == pytest.approx(devices["truth"], rel=1e-6)


def test_fit_splits_the_batch_over_the_devices(devices: Any) -> None:
    # 203 records: 8 steps of 24, which are one execution.
    assert devices["steps"] == 16
    assert devices["shape on a device, devices"] != []
    assert all(seen == [[3, 8, 8, 3], 8] for seen in devices["shape on a device, devices"])


def test_fit_that_reads_a_stream_twice_is_warned_of_and_fit_that_reads_it_once_is_not(devices: Any) -> None:
    assert devices["repeated"] == [["train: this stream of epochs=1 was read"], []]


def test_what_eight_devices_cannot_share_is_refused(devices: Any) -> None:
    assert devices["refused"] == [
        "batch_size=12: the global batch must be a multiple of 8, to be shared by 1 host with 8 devices in all. "
        "The nearest: 8 or 16.",
        "eval_remainder='partial': expected one device, found 1 host with 8 devices in all, which need batches of one size. "
        "Use 'pad'.",
    ]


def test_a_distribution_that_would_cut_the_data_again_is_refused(devices: Any) -> None:
    assert devices["auto_shard_dataset"] == (
        "auto_shard_dataset=True in Keras' distribution: it would cut each host's share of the data again and give wrong "
        "losses. Use detect_accelerator(), or pass auto_shard_dataset=False to the distribution."
    )


def test_processes_are_hosts(processes: list[Any]) -> None:
    hosts = len(processes)

    assert [seen["accelerator"] for seen in processes] == [
        [8, hosts, f"CPU, 8 replicas on {hosts} hosts. {NO_HARDWARE}"]
    ] * hosts


def test_processes_share_the_records_of_an_epoch_and_hold_each_once(processes: list[Any]) -> None:
    hosts = len(processes)
    epochs = [seen["stream"][: len(range(host, 203, hosts))] for host, seen in enumerate(processes)]

    assert sorted(number for epoch in epochs for number in epoch) == list(range(203))


def test_processes_evaluate_exactly(processes: list[Any]) -> None:
    for seen in processes:
        assert seen["evaluated"] == pytest.approx(seen["truth"], rel=1e-6)


def test_processes_train_one_model(processes: list[Any]) -> None:
    for seen in processes[1:]:
        assert seen["trained"] == processes[0]["trained"]


def test_processes_without_keras_share_the_records_whichever_reader_they_use(dataset: Path) -> None:
    found = run_together("plain_jax.py", 2, dataset, backend="jax")

    assert [seen["hosts"] for seen in found] == [2, 2]
    for reader in ("array_batches", "load"):
        assert [number for seen in found for number in seen[reader]] == list(range(203))


def test_keras_that_is_too_old_for_several_devices_is_refused(devices: Any) -> None:
    message = (
        "Keras 3.10.0 cannot train on several JAX devices without cutting the data again: expected Keras 3.11 or newer. Run pip "
        "install 'keras>=3.11'."
    )
    assert devices["old Keras"] == [message] * 2
