"""Several hosts: how the caller names this one, and what is refused.

What they read is in ``test_training.py``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import tensorflow as tf

import shardfeed
from shardfeed.accelerator.hosts import Host, find_host
from tests.kit.datasets import Written
from tests.reader.streams import READERS


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ([0, 2], Host(0, 2, 2)),
        (None, Host(0, 1, 1)),
        ("auto", Host(0, 1, 1)),
        *((tf.distribute.InputContext(4, 2, replicas), Host(2, 4, max(4, replicas))) for replicas in (0, 1, 16)),
    ],
    ids=["list", "None", "auto", "InputContext", "InputContext of 1 replica", "InputContext of 16 replicas"],
)
def test_a_host_is_named_in_several_ways(host: Any, found: Host) -> None:
    assert find_host(host) == found


PAIR = "expected a pair (index, count) such as (0, 8), a tf.distribute.InputContext, or 'auto'."


@pytest.mark.parametrize(
    ("host", "batch_size", "message"),
    [
        (
            (0, 3),
            64,
            "batch_size=64: the global batch must be a multiple of 3, to be shared by 3 hosts with 3 devices in all. "
            "The nearest: 63 or 66.",
        ),
        (
            tf.distribute.InputContext(2, 0, 16),
            8,
            "batch_size=8: the global batch must be a multiple of 16, to be shared by 2 hosts with 16 devices in all. "
            "The nearest: 16.",
        ),
        ((3, 3), 9, "host=(3, 3): expected an index from 0 to 2 for 3 hosts."),
        ((-1, 3), 9, "host=(-1, 3): expected an index from 0 to 2 for 3 hosts."),
        ((0, 0), 9, "host[1]=0: expected an integer of at least 1."),
        ((0.0, 3), 9, "host[0]=0.0: expected an integer, found float."),
        (2, 9, f"host=2: {PAIR}"),
        ("02", 9, f"host='02': {PAIR}"),
        ((0, 38), 38, "split train has 37 records for 38 hosts: train on fewer hosts."),
    ],
    ids=lambda value: str(value) if isinstance(value, tuple) else "",
)
@READERS
def test_hosts_that_cannot_be(written: Written, reader: Any, host: Any, batch_size: int, message: str) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        reader(written.path, "train", batch_size, host=host)

    assert str(found.value) == message


@READERS
def test_partial_batches_are_for_one_device(written: Written, reader: Any) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        reader(written.path, "validation", 8, host=(0, 2), eval_remainder="partial")

    assert str(found.value) == (
        "eval_remainder='partial': expected one device, found 2 hosts with 2 devices in all, which need batches of one size. "
        "Use 'pad'."
    )


def test_the_batch_must_divide_by_the_replicas_of_a_strategy_in_scope(written: Written) -> None:
    cpu = tf.config.list_logical_devices("CPU")[0].name
    with tf.distribute.MirroredStrategy([cpu]).scope():
        assert shardfeed.load(written.path, "train", 7).element_spec[0].shape[0] == 7


WORKERS = {"worker": ["a:1", "b:1"], "chief": ["c:1"]}


@pytest.mark.parametrize(
    ("cluster", "task", "pair"),
    [
        (WORKERS, {"type": "chief", "index": 0}, "(0, 3)"),
        (WORKERS, {"type": "worker", "index": 1}, "(2, 3)"),
        (WORKERS, None, "(index, 3)"),
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, "(1, 2)"),
    ],
    ids=["chief", "worker", "no task", "two workers"],
)
def test_a_worker_that_reads_outside_of_its_strategy_must_name_its_host(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, list[str]], task: dict[str, Any] | None, pair: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster} | ({} if task is None else {"task": task})))

    with pytest.raises(shardfeed.UsageError) as found:
        find_host()

    assert find_host((0, 3)) == Host(0, 3, 3)
    assert str(found.value) == (
        f"TF_CONFIG names {sum(map(len, cluster.values()))} workers, but no strategy is in scope, so that each process would "
        "read the whole split. Call this inside the scope() of a MultiWorkerMirroredStrategy; or pass "
        f"host={pair} for this process's share, host=(0, 1) for the whole split."
    )


@pytest.mark.parametrize(
    "config",
    [
        *("", "no JSON", "[]", "{}"),
        {"cluster": {"worker": ["a:1"]}},
        {"cluster": {"ps": ["p:1"], **WORKERS}},
        {"cluster": []},
        {"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}},
    ],
    ids=str,
)
def test_a_configuration_of_one_reader_needs_no_host(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", config if isinstance(config, str) else json.dumps(config))

    assert find_host() == Host(0, 1, 1)
