"""NumPy batches in evaluation: every record exactly once over the hosts, and weights that make means exact."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import shardfeed
from tests.arrays.streams import numbers
from tests.kit.datasets import Written, write_dataset

N = 37


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_dataset(tmp_path_factory.mktemp("dataset"), image_format="raw", splits={"test": N})


@pytest.mark.parametrize("batch_size", [1, 8, 37, 100], ids=str)
def test_every_record_once_in_the_order_of_the_shards_then_padding(written: Written, batch_size: int) -> None:
    batches = shardfeed.array_batches(written.path, "test", batch_size)

    assert numbers(batches, written, "test") == [*range(N), *[-1] * (-N % batch_size)]
    assert len(batches) == -(-N // batch_size)


@pytest.mark.parametrize(("hosts", "batch_size"), [(2, 8), (5, 10), (40, 40)], ids=str)
def test_hosts_give_the_same_number_of_batches_and_every_record_once(
    written: Written, hosts: int, batch_size: int
) -> None:
    streams = [
        shardfeed.array_batches(written.path, "test", batch_size, host=(host, hosts), threads=1)
        for host in range(hosts)
    ]
    found = [numbers(stream, written, "test") for stream in streams]

    assert [number for number in chain(*found) if number >= 0] == list(range(N))
    assert {len(rows) for rows in found} == {len(streams[0]) * batch_size // hosts}


@pytest.mark.parametrize("hosts", [1, 3])
def test_the_mean_of_weighted_values_over_hosts_and_batches_is_the_mean_over_records(
    written: Written, hosts: int
) -> None:
    values = [
        (w * x.astype(np.float64).mean(axis=(1, 2, 3))).mean()
        for host in range(hosts)
        for x, _, w in shardfeed.array_batches(written.path, "test", 15, host=(host, hosts))
    ]

    assert np.mean(values) == pytest.approx(np.mean([record.pixels.mean() for record in written.records["test"]]), 1e-6)


def test_a_partial_last_batch_has_weights_of_one(written: Written) -> None:
    batches = list(shardfeed.array_batches(written.path, "test", 10, eval_remainder="partial"))

    assert [len(x) for x, _, _ in batches] == [10, 10, 10, 7]
    assert all(w.dtype == np.float32 and (w == 1).all() for _, _, w in batches)


def test_weights_are_float32_and_zero_on_padding(written: Written) -> None:
    *_, (_, _, w) = shardfeed.array_batches(written.path, "test", 10)

    assert w.dtype == np.float32
    assert w.tolist() == [np.float32(40 / 37)] * 7 + [0] * 3


def test_padding_is_warned_of_at_the_callers_line(written: Written) -> None:
    with pytest.warns(UserWarning) as warned:
        shardfeed.array_batches(written.path, "test", 10)

    assert [(str(one.message), one.filename) for one in warned] == [
        (
            "3 rows of weight 0 fill up the last batch of test: a mean of w * loss is exact, one of loss is not.",
            __file__,
        )
    ]


def test_a_training_split_can_be_evaluated(tmp_path: Path) -> None:
    written = write_dataset(tmp_path, image_format="raw")

    assert numbers(shardfeed.array_batches(tmp_path, "train", 37, training=False), written) == list(range(N))
