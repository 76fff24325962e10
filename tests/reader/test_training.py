"""The training streams of both readers: every pass a permutation, the same whatever the machine or
the batch size.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from itertools import chain
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


@pytest.mark.parametrize(
    "options", [{}, {"image_size": 8, "crop": "random_resized", "epochs": 2}], ids=["plain", "cut"]
)
def test_tensorflow_rewrites_no_function_of_ours(
    written: Written, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten: list[object] = []
    rewrite = api._convert_actual

    def note(function: object, context: object) -> object:
        rewritten.append(function)
        return rewrite(function, context)

    monkeypatch.setattr(api, "_convert_actual", note)
    for split, more in {"train": options, "validation": {}}.items():
        next(iter(shardfeed.load(written.path, split, 8, **more)))

    assert rewritten == []


@by_reader(
    "name,hosts,seed",
    [
        *(("written", hosts, seed) for hosts, seed in ((1, 0), (1, -3), (3, 7), (7, 0), (8, 0))),
        *(("many_blocks", hosts, 5) for hosts in (1, 2, 8, 3)),
    ],
    load=[1, 2, 6],
)
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


@by_reader("batch_size,numbers_of_hosts", [(8, (2, 4, 8)), (24, (2, 4, 8)), (304, (2, 4, 8)), (24, (4,))], load=[3])
def test_batches_of_any_number_of_hosts_that_divides_the_streams_are_those_of_one_host(
    many_blocks: Written, reader: Any, batch_size: int, numbers_of_hosts: tuple[int, ...]
) -> None:
    count = 700 // batch_size
    whole = np.array(train(reader, many_blocks, batch_size, count)).reshape(count, batch_size)

    assert [sorted(whole.reshape(-1)[:602].tolist())] == [sorted([*range(301)] * 2)]
    for hosts in numbers_of_hosts:
        of_hosts = [train(reader, many_blocks, batch_size, count, host=(host, hosts)) for host in range(hosts)]
        shared = np.array(of_hosts).reshape(hosts, count, batch_size // hosts)
        for step in range(count):
            assert np.stack(list(shared[:, step]), axis=1).reshape(-1).tolist() == whole[step].tolist()


@READERS
def test_a_stream_goes_on_with_another_number_of_hosts(many_blocks: Written, reader: Any) -> None:
    whole = np.array(train(reader, many_blocks, 24, 30)).reshape(30, 24)
    found, step = [], 0
    for hosts, steps in ((4, 7), (1, 9), (2, 14)):
        batches = [train(reader, many_blocks, 24, steps, host=(host, hosts), start_step=step) for host in range(hosts)]
        found.append(np.array(batches).reshape(hosts, steps, -1).transpose(1, 2, 0).reshape(steps, 24))
        step += steps

    assert np.concatenate(found).tolist() == whole.tolist()


@READERS
def test_order_depends_on_seed_and_pass_alone(written: Written, reader: Any) -> None:
    seeds = {seed: train(reader, written, N, 3, seed=seed) for seed in (0, 1, -1, 2**63)}

    assert len({tuple(one) for stream in seeds.values() for one in passes(stream, N)}) == 12
    tf.random.set_seed(1)
    first = train(reader, written, N, 3)
    tf.random.set_seed(2)
    assert train(reader, written, N, 3) == first == seeds[0]


@by_reader("batch_size", [1, 8, 128, 129, 300], load=[0, 3])
def test_batches_straddle_passes_and_their_size_does_not_change_the_order(
    written: Written, reader: Any, batch_size: int
) -> None:
    count = -(-3 * N // batch_size)

    found = train(reader, written, batch_size, count)

    assert len(found) == count * batch_size
    assert found == train(reader, written, N, 300 // N + 1)[: len(found)]


@READERS
def test_a_stream_may_be_read_twice_and_by_two_at_a_time(written: Written, reader: Any) -> None:
    stream = reader(written.path, "train", 8, shuffle_buffer=THREE_BLOCKS)
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


@READERS
def test_windows_of_equal_length_are_shuffled_differently(tmp_path: Path, reader: Any) -> None:
    written = lossless(tmp_path, splits={"train": 36})
    blocks = blocks_in(written.manifest.splits["train"].shards)
    found = iter(train(reader, written, 36, 2))

    every = [
        window for epoch in range(2) for _, window in windows(blocks, 0, epoch, 3, host_streams(36, len(blocks), 0, 1))
    ]
    shuffles = {tuple(window.index(next(found)) for _ in window) for window in every}

    assert len(shuffles) == len(every) == 6


def test_any_record_of_a_window_can_come_first(tmp_path: Path) -> None:
    written = lossless(tmp_path, splits={"train": 36})
    blocks = blocks_in(written.manifest.splits["train"].shards)

    places = set()
    for epoch, one in enumerate(passes(train(shardfeed.load, written, 36, 60, shuffle_buffer="1MB"), 36)):
        ((_, window),) = windows(blocks, 0, epoch, len(blocks), host_streams(36, len(blocks), 0, 1))
        places.add(window.index(one[0]))

    # In the order of the files; a shuffle buffer shorter than the window never gives the end
    # first.
    assert min(places) <= 3 and max(places) >= 32


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_tensorflow_permutes_as_the_pure_order_does(count: int) -> None:
    for seed in (0, 1, 2**64 - 1, order.epoch_seed(3, 4)):
        found = records.permutation(count, tf.constant(seed, tf.uint64))

        assert found.numpy().tolist() == order.permutation(count, seed).tolist()


@pytest.mark.parametrize("count", [1, 4, 9, 3000])
def test_a_shuffle_buffer_of_tensorflow_gives_the_computed_order(count: int) -> None:
    for seed in (0, 1, 2**64 - 1, order.window_seed(3, 4, 5)):
        found = records._shuffled(tf.data.Dataset.range(count), count, tf.constant(seed, tf.uint64))

        assert list(found.as_numpy_iterator()) == buffer_order(count, seed)


@READERS
def test_a_window_of_one_block_shuffles_inside_blocks_only(written: Written, reader: Any) -> None:
    blocks = blocks_in(written.manifest.splits["train"].shards)
    block_of = list(chain(*([number] * block.records for number, block in enumerate(blocks))))

    found = [block_of[number] for number in train(reader, written, N, 1, shuffle_buffer=1)]

    in_turn = [block for i, block in enumerate(found) if not i or found[i - 1] != block]
    assert in_turn == order.permutation(10, order.epoch_seed(0, 0)).tolist()


@READERS
def test_a_split_of_one_record_is_a_stream_too(tmp_path: Path, reader: Any) -> None:
    written = lossless(tmp_path, splits={"train": 1}, classes=("daisy",))

    assert numbers(reader(tmp_path, "train", 5), written, "train", 2) == [0] * 10


@by_reader(
    "epochs,batch_size,hosts,steps",
    [(1, 8, 1, 4), (3, 8, 1, 13), (1, 37, 1, 1), (8, 200, 1, 1), (7, 129, 1, 2), (3, 3, 3, 36), (2, 8, 2, 9)],
    load=[1, 6],
)
def test_epochs_end_the_stream_after_the_last_whole_batch_on_every_host(
    written: Written, reader: Any, epochs: int, batch_size: int, hosts: int, steps: int
) -> None:
    for host in range(hosts):
        options = {"shuffle_buffer": THREE_BLOCKS, "host": (host, hosts)}
        stream = reader(written.path, "train", batch_size, epochs=epochs, **options)

        assert len(stream) == steps
        assert numbers(stream, written, "train") == train(reader, written, batch_size, steps, **options)


def test_without_epochs_the_stream_is_infinite_and_its_shapes_are_static(written: Written) -> None:
    stream = shardfeed.load(written.path, "train", 129)

    assert stream.cardinality() == tf.data.INFINITE_CARDINALITY
    assert stream.element_spec == (tf.TensorSpec([129, 8, 12, 3], tf.uint8), tf.TensorSpec([129], tf.int32))


def test_nothing_adapts_at_run_time(written: Written) -> None:
    options = shardfeed.load(written.path, "train", 8).options()

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
