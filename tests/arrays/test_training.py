"""The training stream of NumPy batches: exactly once over hosts, resumable, dependent on seed and pass alone."""

from __future__ import annotations

import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import UsageError
from shardfeed.sampling import order
from shardfeed.sampling.blocks import blocks_in
from shardfeed.sampling.host_share import host_range
from shardfeed.sampling.record_order import training_windows
from tests.arrays.streams import THREE_BLOCKS, numbers, train
from tests.kit.datasets import Written, write_dataset

N = 37


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_dataset(tmp_path_factory.mktemp("dataset"), image_format="raw")


def passes(stream: list[int], size: int) -> list[list[int]]:
    return [stream[i : i + size] for i in range(0, len(stream) - size + 1, size)]


def test_every_pass_holds_every_record_once_and_passes_differ(written: Written) -> None:
    found = passes(train(written, N, 5), N)

    assert [sorted(one) for one in found] == [list(range(N))] * 5
    assert len({tuple(one) for one in found}) == 5


@pytest.mark.parametrize("hosts", [1, 2, 3, 5])
def test_hosts_together_hold_every_record_of_each_pass_once(written: Written, hosts: int) -> None:
    shares = [len(host_range(N, host, hosts)) for host in range(hosts)]
    streams = [train(written, hosts, 3 * share, host=(host, hosts)) for host, share in enumerate(shares)]

    for number in range(3):
        one = [passes(stream, share)[number] for stream, share in zip(streams, shares, strict=True)]
        assert sorted(chain(*one)) == list(range(N))


@pytest.mark.parametrize("batch_size", [1, 8, 33, 300], ids=str)
def test_batches_straddle_passes_and_their_size_does_not_change_the_order(written: Written, batch_size: int) -> None:
    count = -(-3 * N // batch_size)

    found = train(written, batch_size, count)

    assert len(found) == count * batch_size
    assert found == train(written, N, 10)[: len(found)]


def test_order_depends_on_the_seed(written: Written) -> None:
    assert train(written, N, 2, seed=5) == train(written, N, 2, seed=5)
    assert len({tuple(train(written, N, 1, seed=seed)) for seed in (0, 1, -1, 2**63)}) == 4
    assert train(written, N, 1) == train(written, N, 1, seed=0)


def test_order_does_not_depend_on_threads(written: Written) -> None:
    assert train(written, 5, 20, threads=7) == train(written, 5, 20, threads=1)


@pytest.mark.parametrize("start", [0, 1, 4, 5, 9, 21], ids=str)
@pytest.mark.parametrize("host", [(0, 1), (1, 3)], ids=["one host", "host 1 of 3"])
def test_a_stream_that_starts_later_is_the_rest_of_the_stream(
    written: Written, host: tuple[int, int], start: int
) -> None:
    whole = train(written, 9, start + 8, host=host)

    assert train(written, 9, 8, host=host, start_step=start) == whole[start * (9 // host[1]) :]


def test_an_end_after_epochs_stays_where_it_is_when_the_stream_starts_later(written: Written) -> None:
    whole = shardfeed.array_batches(written.path, "train", 8, epochs=2)
    rest = shardfeed.array_batches(written.path, "train", 8, epochs=2, start_step=3)

    assert (len(whole), len(rest)) == (9, 6)
    assert numbers(rest, written) == numbers(whole, written)[3 * 8 :]


def test_hosts_end_after_the_same_number_of_batches(written: Written) -> None:
    streams = [shardfeed.array_batches(written.path, "train", 3, epochs=3, host=(host, 3)) for host in range(3)]

    assert [(len(stream), len(list(stream))) for stream in streams] == [(36, 36)] * 3


@pytest.mark.parametrize("host", [(0, 1), (1, 3)], ids=["one host", "host 1 of 3"])
@pytest.mark.parametrize("seed", [0, 7], ids=str)
def test_windows_hold_what_those_of_load_hold(written: Written, seed: int, host: tuple[int, int]) -> None:
    blocks = blocks_in(written.manifest.splits["train"].shards)
    mine = host_range(N, *host)
    ours = train(written, host[1], 2 * len(mine), seed=seed, host=host)
    load = shardfeed.load(
        written.path, "train", host[1], seed=seed, host=host, shuffle_buffer=THREE_BLOCKS
    ).as_numpy_iterator()
    theirs = numbers(load, written, "train", 2 * len(mine))

    at = 0
    for epoch in range(2):
        for window in order.host_windows(blocks, seed, epoch, 3, mine):
            one = slice(at, at + int(window.runs.take.sum()))
            assert sorted(ours[one]) == sorted(theirs[one])
            at = one.stop
    assert at == len(ours) == len(theirs)


def test_windows_are_shuffled(written: Written) -> None:
    blocks = blocks_in(written.manifest.splits["train"].shards)
    first = next(order.host_windows(blocks, 0, 0, 3, range(N))).runs.block.tolist()
    as_read = [4 * block + i for block in first for i in range(4)]

    orders = {tuple(train(written, 12, 1, seed=seed)) for seed in range(5)}

    assert len(orders) == 5 and tuple(as_read) not in orders


@pytest.mark.parametrize("count", [1, 36, 37, 100], ids=str)
def test_nothing_is_read_beyond_the_end(written: Written, count: int) -> None:
    shards = written.manifest.splits["train"].shards
    windows = training_windows(shards, seed=0, window_bytes=THREE_BLOCKS, host=0, hosts=1, start=5, count=count)

    assert sum(len(window.order) for window in windows) == count


@pytest.mark.parametrize(
    ("split", "options"),
    [
        ("train", {"epochs": 2, "seed": 3, "start_step": 2, "host": (1, 2)}),
        ("validation", {"eval_remainder": "partial"}),
    ],
    ids=["training", "evaluation"],
)
def test_a_stream_travels_to_other_processes(written: Written, split: str, options: dict[str, Any]) -> None:
    batches = shardfeed.array_batches(written.path, split, 4, shuffle_buffer=THREE_BLOCKS, **options)

    again = pickle.loads(pickle.dumps(batches))

    assert len(again) == len(batches) and repr(again) == repr(batches)
    assert numbers(again, written, split) == numbers(batches, written, split)


@pytest.mark.parametrize(
    ("options", "many"), [({}, "endless batches"), ({"epochs": 1}, "9 batches")], ids=["endless", "finite"]
)
def test_a_stream_is_true_and_says_what_it_is(written: Written, options: dict[str, int], many: str) -> None:
    batches = shardfeed.array_batches(written.path, "train", 4, **options)

    assert batches
    assert repr(batches) == f"ArrayBatches({many} of 4 from train of {written.path})"


def test_what_a_batch_is(written: Written) -> None:
    batches = shardfeed.array_batches(written.path, "train", 8, host=(1, 2))
    images, labels = next(iter(batches))

    assert (images.shape, images.dtype, labels.shape, labels.dtype) == ((4, 8, 12, 3), np.uint8, (4,), np.int32)
    assert (batches.batch_size, batches.image_shape) == (4, (8, 12, 3))
    with pytest.raises(TypeError, match=r"^a training stream without epochs= has no end and no length$"):
        len(batches)


def test_batches_that_were_handed_out_do_not_change(written: Written) -> None:
    stream = iter(shardfeed.array_batches(written.path, "train", 8, shuffle_buffer=THREE_BLOCKS))
    first = next(stream)[0]
    copy = first.copy()
    for _ in range(20):
        next(stream)

    assert np.array_equal(first, copy)


def test_a_dataset_may_be_read_twice_at_a_time(written: Written) -> None:
    batches = shardfeed.array_batches(written.path, "train", 8, epochs=1)

    assert all(np.array_equal(a[0], b[0]) for a, b in zip(batches, batches, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: expected an integer of at least 1."),
        ({"host": (2, 2)}, "host=(2, 2): expected an index from 0 to 1 for 2 hosts."),
        (
            {"host": 3},
            "host=3: expected a pair (index, count) such as (0, 8), a tf.distribute.InputContext, or 'auto'.",
        ),
        ({"batch_size": 9, "host": (0, 2)}, "The nearest that does: 8 or 10."),
        ({"batch_size": 40, "host": (0, 40)}, "split train has 37 records for 40 hosts: train on fewer hosts."),
        ({"start_step": -1}, "start_step=-1: expected an integer of at least 0."),
        ({"epochs": 1, "start_step": 4}, "start_step=4: epochs=1 are 4 steps, numbered from 0."),
        ({"batch_size": 50, "epochs": 1}, "1 × 37 records of train are less than one batch."),
        ({"threads": 1025}, "threads=1025: expected an integer of at most 1024."),
        ({"threads": 0}, "threads=0: expected an integer of at least 1."),
        ({"training": "yes"}, "training='yes': expected True, False or None."),
        ({"training": False, "epochs": 1}, "epochs=1: evaluation is one pass over train. Leave epochs out"),
        ({"training": False, "start_step": 1}, "start_step=1: evaluation is one pass over train. Leave start_step out"),
        (
            {"training": False, "eval_remainder": "partial", "host": (0, 2)},
            "eval_remainder='partial': expected one device, found 2 hosts",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else ", ".join(value),
)
def test_arguments_that_cannot_be(written: Written, options: dict[str, object], message: str) -> None:
    arguments = {"batch_size": 8, **options}

    with pytest.raises(UsageError) as found:
        shardfeed.array_batches(written.path, "train", **arguments)  # type: ignore[arg-type]

    assert message in str(found.value)


def test_images_of_varying_size(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=None)

    with pytest.raises(UsageError, match=r"vary in size, and a batch needs one\. Build the dataset with a fixed size"):
        shardfeed.array_batches(tmp_path, "train", 8)
