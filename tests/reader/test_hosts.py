"""Several hosts: together each record exactly once, with batches in step."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.sampling import order
from shardfeed.sampling.blocks import blocks_in
from shardfeed.sampling.host_share import host_range
from tests.kit.datasets import Written
from tests.reader.streams import THREE_BLOCKS, lossless, numbers

N, M = 37, 103  # records of train and validation


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return lossless(tmp_path_factory.mktemp("dataset"), splits={"train": N, "validation": M})


def train(written: Written, host: Any, share: int, hosts: int, **options: Any) -> tf.data.Dataset:
    options = {"shuffle_buffer": THREE_BLOCKS, **options}
    return shardfeed.load(written.path, "train", share * hosts, host=host, **options)


def evaluate(written: Written, batch_size: int, host: Any) -> tf.data.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shardfeed.load(written.path, "validation", batch_size, host=host)


@pytest.mark.parametrize("hosts", [1, 3, 7, 8])
def test_in_each_epoch_all_hosts_together_read_every_record_once(written: Written, hosts: int) -> None:
    blocks = blocks_in(written.manifest.splits["train"].shards)
    firsts = np.cumsum(blocks.records) - blocks.records
    together: list[list[int]] = [[], []]
    for host in range(hosts):
        mine = host_range(N, host, hosts)
        found = iter(numbers(train(written, (host, hosts), 4, hosts), written, "train", -(-len(mine) // 2)))
        for epoch in range(2):
            for window in order.host_windows(blocks, 0, epoch, 3, mine):
                expected = [
                    int(firsts[block]) + skip + i
                    for block, skip, take in zip(
                        *(column.tolist() for column in (window.runs.block, window.runs.skip, window.runs.take)),
                        strict=True,
                    )
                    for i in range(take)
                ]
                inside = [next(found) for _ in expected]
                assert sorted(inside) == sorted(expected)  # as the pure order says
                together[epoch] += inside

    assert [sorted(epoch) for epoch in together] == [list(range(N))] * 2


def test_hosts_read_other_records_in_each_epoch(written: Written) -> None:
    found = numbers(train(written, (0, 4), 1, 4), written, "train", 27)

    assert len({frozenset(found[i : i + 9]) for i in (0, 9, 18)}) == 3


def test_a_pair_may_be_a_list(written: Written) -> None:
    assert numbers(train(written, [0, 2], 4, 2), written, "train", 3) == numbers(
        train(written, (0, 2), 4, 2), written, "train", 3
    )


@pytest.mark.parametrize("host", [None, "auto"])
def test_one_host_of_one_is_the_default(written: Written, host: Any) -> None:
    assert numbers(train(written, (0, 1), N, 1), written, "train", 3) == numbers(
        train(written, host, N, 1), written, "train", 3
    )


@pytest.mark.parametrize(("hosts", "share"), [(1, 13), (3, 7), (3, 17), (7, 5), (8, 13)])
def test_evaluation_reads_every_record_once_in_as_many_batches_on_every_host(
    written: Written, hosts: int, share: int
) -> None:
    steps = -(-M // (share * hosts))
    together: list[int] = []
    for host in range(hosts):
        dataset = evaluate(written, share * hosts, (host, hosts))
        found = list(dataset.as_numpy_iterator())
        assert dataset.cardinality() == len(found) == steps
        weights = np.concatenate([weights for *_, weights in found])
        read = numbers(dataset, written, "validation")
        assert weights.tolist() == [0 if number < 0 else np.float32(share * hosts * steps / M) for number in read]
        together += [number for number in read if number >= 0]

    assert together == list(range(M))


@pytest.mark.parametrize("host", [(0, 2), (0, 120)], ids=["one record fewer than host 1", "no record at all"])
def test_a_host_with_fewer_batches_than_others_fills_them_with_padding(written: Written, host: tuple[int, int]) -> None:
    images, labels, weights = list(evaluate(written, 51 * 2 if host[1] == 2 else 120, host).as_numpy_iterator())[-1]

    assert not images.any() and not labels.any() and not weights.any()


def test_padding_of_all_hosts_is_counted_in_the_warning(written: Written) -> None:
    with pytest.warns(UserWarning, match=r"^17 rows of weight 0 fill up"):
        shardfeed.load(written.path, "validation", 40, host=(1, 8))


@pytest.mark.parametrize("replicas", [0, 1, 16])
def test_an_input_context_says_which_host_this_is(written: Written, replicas: int) -> None:
    context = tf.distribute.InputContext(4, 2, replicas)

    found = train(written, context, 4, 4)

    assert found.element_spec[0].shape[0] == 4
    assert numbers(found, written, "train", 5) == numbers(train(written, (2, 4), 4, 4), written, "train", 5)


@pytest.mark.parametrize(
    ("host", "batch_size", "message"),
    [
        (
            (0, 3),
            64,
            "batch_size=64: the global batch must divide by 3, to be shared by 3 hosts with 3 devices in all. "
            "The nearest that does: 63 or 66.",
        ),
        (
            tf.distribute.InputContext(2, 0, 16),
            8,
            "batch_size=8: the global batch must divide by 16, to be shared by 2 hosts with 16 devices in all. "
            "The nearest that does: 16.",
        ),
        ((3, 3), 9, "host=(3, 3): expected an index from 0 to 2 for 3 hosts."),
        ((-1, 3), 9, "host=(-1, 3): expected an index from 0 to 2 for 3 hosts."),
        ((0, 0), 9, "host[1]=0: expected an integer of at least 1."),
        ((0.0, 3), 9, "host[0]=0.0: expected an integer, found float."),
        (
            2,
            9,
            "host=2: expected a pair (index, count) such as (0, 8), a tf.distribute.InputContext, or 'auto'.",
        ),
        (
            "02",
            9,
            "host='02': expected a pair (index, count) such as (0, 8), a tf.distribute.InputContext, or 'auto'.",
        ),
        ((0, 38), 38, "split train has 37 records for 38 hosts: train on fewer hosts."),
    ],
    ids=lambda value: str(value) if isinstance(value, tuple) else "",
)
def test_hosts_that_cannot_be(written: Written, host: Any, batch_size: int, message: str) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.load(written.path, "train", batch_size, host=host)

    assert str(found.value) == message


def test_partial_batches_are_for_one_device(written: Written) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.load(written.path, "validation", 8, host=(0, 2), eval_remainder="partial")

    assert str(found.value) == (
        "eval_remainder='partial': expected one device, found 2 hosts with 2 devices in all, which need batches of one size. "
        "Use 'pad'."
    )


def test_the_batch_must_divide_by_the_replicas_of_a_strategy_in_scope(written: Written) -> None:
    cpu = tf.config.list_logical_devices("CPU")[0].name
    with tf.distribute.MirroredStrategy([cpu]).scope():
        assert train(written, None, 7, 1).element_spec[0].shape[0] == 7


WORKERS = {"worker": ["a:1", "b:1"], "chief": ["c:1"]}


@pytest.mark.parametrize(
    ("task", "pair"),
    [
        ({"task": {"type": "chief", "index": 0}}, "(0, 3)"),
        ({"task": {"type": "worker", "index": 1}}, "(2, 3)"),
        ({}, "(index, 3)"),
    ],
    ids=["chief", "worker", "no task"],
)
@pytest.mark.parametrize("reader", [shardfeed.load, shardfeed.array_batches])
def test_a_worker_that_reads_outside_of_its_strategy_must_name_its_host(
    written: Written, monkeypatch: pytest.MonkeyPatch, reader: Any, task: dict[str, Any], pair: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": WORKERS, **task}))

    with pytest.raises(shardfeed.UsageError) as found:
        reader(written.path, "train", 3)

    assert str(found.value) == (
        "TF_CONFIG names 3 workers, but no strategy is in scope, so that each process would read the whole split. Call this "
        f"inside the scope() of a MultiWorkerMirroredStrategy; or pass host={pair} for this process's share, host=(0, 1) for "
        "the whole split."
    )


@pytest.mark.parametrize(
    "config",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        {"cluster": {"worker": ["a:1"]}},
        {"cluster": {"ps": ["p:1"], **WORKERS}},
        {"cluster": []},
        {"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}},
    ],
    ids=str,
)
def test_a_configuration_of_one_reader_needs_no_host(
    written: Written, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", config if isinstance(config, str) else json.dumps(config))

    train(written, None, 4, 1)


def test_a_worker_that_names_its_host_reads(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": WORKERS}))

    train(written, (0, 3), 4, 3)


def test_a_host_looks_at_the_shards_that_it_evaluates_only(written: Written, tmp_path: Path) -> None:
    lossless(tmp_path, splits={"validation": M})
    (tmp_path / "validation-00002-of-00003.tfrecord").unlink()

    assert len(evaluate(Written(tmp_path, written.manifest, {}), 103 * 2, (0, 2))) == 1
    with pytest.raises(shardfeed.DatasetError, match=r"validation-00002-of-00003\.tfrecord is damaged"):
        shardfeed.load(tmp_path, "validation", 103 * 2, host=(1, 2))
