"""The training streams of both readers: every pass a permutation, the same whatever the machine or
the batch size.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.autograph.impl import api

import shardfeed
from shardfeed.sampling import order
from shardfeed.sampling.blocks import blocks_in
from shardfeed.sampling.buffer_order import buffer_order
from shardfeed.sampling.record_order import training_windows
from shardfeed.sampling.streams import host_streams
from shardfeed.tfdata import records
from shardfeed.tfdata.batching import threads
from tests.kit.datasets import Written
from tests.reader.streams import READERS, THREE_BLOCKS, by_reader, elastic, lossless, numbers, passes, train, windows

N = 37


@pytest.fixture(scope="module")
def many_blocks(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return elastic(tmp_path_factory.mktemp("dataset"))


def test_tensorflow_rewrites_no_function_of_ours(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten: list[object] = []
    rewrite = api._convert_actual

    def note(function: object, context: object) -> object:
        rewritten.append(function)
        return rewrite(function, context)

    monkeypatch.setattr(api, "_convert_actual", note)
    cut: dict[str, Any] = {"image_size": 8, "crop": "random_resized", "epochs": 2}
    for split, options in (("train", {}), ("train", cut), ("validation", {})):
        next(iter(shardfeed.load(written.path, split, 8, **options)))

    assert rewritten == []


@READERS
@pytest.mark.parametrize(("name", "hosts", "seed"), [("written", 1, -3), ("written", 3, 7), ("many_blocks", 2, 5)])
def test_hosts_read_the_windows_of_the_pure_order_shuffled_and_together_each_record_once_a_pass(
    request: pytest.FixtureRequest, reader: Any, name: str, hosts: int, seed: int
) -> None:
    written: Written = request.getfixturevalue(name)
    blocks, records = blocks_in(written.manifest.splits["train"].shards), len(written.records["train"])
    together: list[list[int]] = [[], []]
    as_read = 0
    for host in range(hosts):
        streams = host_streams(records, len(blocks), host, hosts)
        size = order.window_blocks(blocks, THREE_BLOCKS * streams.count, streams)
        found = train(
            reader, written, hosts, 2 * (records // hosts + 1), host=(host, hosts), seed=seed,
            shuffle_buffer=THREE_BLOCKS * streams.count,
        )  # fmt: skip
        for epoch in range(2):
            for rows, expected in windows(blocks, seed, epoch, size, streams):
                inside = [found[row] for row in rows]
                assert sorted(inside) == sorted(expected)
                as_read += len(expected) > 8 and inside == expected
                together[epoch] += inside

    assert [sorted(epoch) for epoch in together] == [list(range(records))] * 2
    assert together[0] != together[1] and not as_read


@by_reader("plan", [((4, 7), (1, 9), (8, 14)), ((1, 3), (2, 12))], load=[1])
def test_a_stream_goes_on_with_another_number_of_hosts(
    many_blocks: Written, reader: Any, plan: Sequence[tuple[int, int]]
) -> None:
    count = sum(steps for _, steps in plan)
    whole = np.array(train(reader, many_blocks, 24, count)).reshape(count, 24)
    found, step = [], 0
    for hosts, steps in plan:
        batches = [train(reader, many_blocks, 24, steps, host=(host, hosts), start_step=step) for host in range(hosts)]
        found.append(np.array(batches).reshape(hosts, steps, -1).transpose(1, 2, 0).reshape(steps, 24))
        step += steps

    assert np.concatenate(found).tolist() == whole.tolist()


@READERS
def test_order_depends_on_seed_and_pass_alone(written: Written, reader: Any) -> None:
    tf.random.set_seed(1)
    seeds = {seed: train(reader, written, N, 3, seed=seed) for seed in (0, -1)}

    assert len({tuple(one) for stream in seeds.values() for one in passes(stream, N)}) == 6
    tf.random.set_seed(2)
    assert train(reader, written, N, 3) == seeds[0]


@by_reader("batch_size", [1, 8, 129, 300], load=[2])
def test_batches_straddle_passes_and_their_size_does_not_change_the_order(
    written: Written, reader: Any, batch_size: int
) -> None:
    count = -(-3 * N // batch_size)

    found = train(reader, written, batch_size, count)

    assert len(found) == count * batch_size
    assert found == train(reader, written, N, 300 // N + 1)[: len(found)]


def test_a_stream_may_be_read_twice_and_by_two_at_a_time(written: Written) -> None:
    stream = shardfeed.load(written.path, "train", 8, shuffle_buffer=THREE_BLOCKS)
    one, other = iter(stream), iter(stream)

    for _ in range(9):
        first, second = next(one), next(other)
        assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])


@pytest.fixture
def one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@READERS
def test_order_does_not_depend_on_cores(written: Written, reader: Any, one_core: None) -> None:
    assert threads() == 3
    alone = train(reader, written, 5, 20)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

    assert train(reader, written, 5, 20) == alone


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_tensorflow_permutes_as_the_pure_order_does(count: int) -> None:
    for seed in (0, 1, 2**64 - 1, order.epoch_seed(3, 4)):
        found = records.permutation(count, tf.constant(seed, tf.uint64))

        assert found.numpy().tolist() == order.permutation(count, seed).tolist()


@pytest.mark.parametrize("count", [1, 9, 1000])
def test_a_shuffle_buffer_of_tensorflow_gives_the_computed_order(count: int) -> None:
    for seed in (0, 1, 2**64 - 1, order.window_seed(3, 4, 5)):
        found = records._shuffled(tf.data.Dataset.range(count), count, tf.constant(seed, tf.uint64))

        assert list(found.as_numpy_iterator()) == buffer_order(count, seed)


def test_any_record_of_a_window_can_come_first() -> None:
    assert {buffer_order(36, order.window_seed(0, epoch, 0))[0] for epoch in range(500)} == set(range(36))


@READERS
def test_a_split_of_one_record_is_a_stream_too(tmp_path: Path, reader: Any) -> None:
    written = lossless(tmp_path, splits={"train": 1}, classes=("daisy",))

    assert numbers(reader(tmp_path, "train", 5), written, "train", 2) == [0] * 10


@by_reader(
    "epochs,batch_size,hosts,steps",
    [(3, 8, 1, 13), (7, 129, 1, 2), (2, 8, 2, 9), (3, 3, 3, 36)],
    load=[2],
)
def test_epochs_end_the_stream_after_the_last_whole_batch_on_every_host(
    written: Written, reader: Any, epochs: int, batch_size: int, hosts: int, steps: int
) -> None:
    for host in range(hosts):
        options = {"shuffle_buffer": THREE_BLOCKS, "host": (host, hosts)}
        stream = reader(written.path, "train", batch_size, epochs=epochs, **options)

        assert len(stream) == steps
        assert numbers(stream, written, "train") == train(reader, written, batch_size, steps, **options)


def test_without_epochs_the_stream_is_infinite_and_nothing_adapts_at_run_time(written: Written) -> None:
    stream = shardfeed.load(written.path, "train", 8)
    options = stream.options()

    assert stream.cardinality() == tf.data.INFINITE_CARDINALITY
    assert options.deterministic is True
    assert options.autotune.enabled is False
    assert options.threading.max_intra_op_parallelism == 1
    assert options.threading.private_threadpool_size == threads()
    assert options.experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.OFF


def test_arrays_do_not_depend_on_the_number_of_threads(written: Written) -> None:
    assert train(shardfeed.array_batches, written, 5, 20, threads=7) == train(shardfeed.array_batches, written, 5, 20)


@pytest.mark.parametrize("count", [1, 36, 37, 100], ids=str)
def test_no_record_beyond_the_end_is_in_a_window(written: Written, count: int) -> None:
    shards = written.manifest.splits["train"].shards
    found = training_windows(
        blocks_in(shards), seed=0, window_bytes=THREE_BLOCKS, host=0, hosts=1, start=5, count=count
    )

    assert sum(len(window.order) for window in found) == count


@pytest.mark.parametrize(
    ("split", "options"),
    [
        ("train", {"epochs": 2, "seed": 3, "start_step": 2, "host": (1, 2)}),
        ("validation", {"eval_remainder": "partial"}),
    ],
    ids=["training", "evaluation"],
)
def test_array_batches_travel_to_other_processes(written: Written, split: str, options: dict[str, Any]) -> None:
    batches = shardfeed.array_batches(written.path, split, 4, shuffle_buffer=THREE_BLOCKS, **options)

    again = pickle.loads(pickle.dumps(batches))

    assert len(again) == len(batches) and repr(again) == repr(batches)
    assert numbers(again, written, split) == numbers(batches, written, split)


@pytest.mark.parametrize(
    ("options", "many"), [({}, "endless batches"), ({"epochs": 1}, "4 batches")], ids=["endless", "finite"]
)
def test_array_batches_say_what_they_are(written: Written, options: dict[str, Any], many: str) -> None:
    batches = shardfeed.array_batches(written.path, "train", 8, host=(1, 2), **options)
    images, labels = next(iter(batches))

    assert batches and repr(batches) == f"ArrayBatches({many} of 4 from train of {written.path})"
    assert (images.shape, labels.shape) == ((4, 8, 12, 3), (4,))
    assert (str(images.dtype), str(labels.dtype)) == ("uint8", "int32")
    assert (batches.batch_size, batches.image_shape) == (4, (8, 12, 3))
    if not options:
        with pytest.raises(TypeError, match=r"^a training stream without epochs= has no end and no length$"):
            len(batches)


def test_arrays_that_were_handed_out_do_not_change(written: Written) -> None:
    stream = iter(shardfeed.array_batches(written.path, "train", 8, shuffle_buffer=THREE_BLOCKS))
    first = next(stream)[0]
    copy = first.copy()
    for _ in range(20):
        next(stream)

    assert np.array_equal(first, copy)
