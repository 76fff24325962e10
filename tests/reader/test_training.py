"""The training stream: every pass a permutation, reproducible, the same whatever the machine or the batch size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import shardfeed
from shardfeed.arguments import byte_count
from shardfeed.sampling import order
from shardfeed.sampling.blocks import blocks_in
from shardfeed.tfdata import records
from shardfeed.tfdata.batching import threads
from tests.kit.datasets import Written
from tests.reader.streams import THREE_BLOCKS, lossless, numbers, passes, windows

N = 37


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return lossless(tmp_path_factory.mktemp("dataset"))


def stream(written: Written, batch_size: int = N, count: int = 6, **options: Any) -> list[int]:
    options = {"shuffle_buffer": THREE_BLOCKS, **options}
    return numbers(shardfeed.load(written.path, "train", batch_size, **options), written, "train", count)


def test_every_pass_holds_every_record_once(written: Written) -> None:
    for one in passes(stream(written), N):
        assert sorted(one) == list(range(N))


def test_passes_differ(written: Written) -> None:
    assert len({tuple(one) for one in passes(stream(written), N)}) == 6


def test_the_same_seed_gives_the_same_order(written: Written) -> None:
    assert stream(written, seed=5) == stream(written, seed=5)


def test_seeds_differ(written: Written) -> None:
    firsts = {tuple(stream(written, count=1, seed=seed)) for seed in (0, 1, -1, 2**63)}

    assert len(firsts) == 4


def test_the_default_seed_is_zero(written: Written) -> None:
    assert stream(written) == stream(written, seed=0)


@pytest.mark.parametrize("batch_size", [1, 8, 100, 128, 129, 300], ids=str)
def test_batches_straddle_passes_and_their_size_does_not_change_the_order(written: Written, batch_size: int) -> None:
    count = -(-3 * N // batch_size)

    found = stream(written, batch_size, count)

    assert found == stream(written, N, 300 // N + 1)[: len(found)] and len(found) == count * batch_size


def test_a_stream_read_twice_starts_again(written: Written) -> None:
    dataset = shardfeed.load(written.path, "train", N, shuffle_buffer=THREE_BLOCKS)

    assert numbers(dataset, written, "train", 2) == numbers(dataset, written, "train", 2)


def test_order_does_not_depend_on_the_global_seed_of_tensorflow(written: Written) -> None:
    tf.random.set_seed(1)
    first = stream(written)
    tf.random.set_seed(2)

    assert stream(written) == first


@pytest.fixture
def one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


def test_order_does_not_depend_on_cores(written: Written, one_core: None) -> None:
    assert threads() == 3
    alone = stream(written)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))

    assert stream(written) == alone


def keys(dataset: tf.data.Dataset, count: int) -> list[bytes]:
    return [record[-200:] for record in dataset.take(count).as_numpy_iterator()]


def raw(written: Written, *, seed: int = 0, window: int = 3, readers: int = 1, start: int = 0) -> tf.data.Dataset:
    shards = written.manifest.splits["train"].shards
    blocks = blocks_in(shards)
    runs = records.record_runs([str(written.path / shard.file) for shard in shards], blocks, readers)
    return records.training_stream(blocks, runs, seed=seed, window=window, mine=range(N), start=start)


@pytest.mark.parametrize("readers", [2, 3, 8])
def test_order_does_not_depend_on_parallel_readers(written: Written, readers: int) -> None:
    assert keys(raw(written, readers=readers), 3 * N) == keys(raw(written), 3 * N)


@pytest.mark.parametrize("start", [1, 11, 12, N - 1, N, N + 1, 2 * N + 20])
def test_a_stream_can_be_entered_at_any_record(written: Written, start: int) -> None:
    assert keys(raw(written, start=start), N) == keys(raw(written), start + N)[start:]


@pytest.mark.parametrize("seed", [0, 7, -3], ids=str)
def test_each_window_holds_the_blocks_that_the_pure_order_names_in_a_shuffled_order(
    written: Written, seed: int
) -> None:
    blocks = blocks_in(written.manifest.splits["train"].shards)
    ends = blocks.records.cumsum().tolist()
    found = iter(
        numbers(
            shardfeed.load(written.path, "train", 1, seed=seed, shuffle_buffer=THREE_BLOCKS), written, "train", 2 * N
        )
    )
    sorted_windows = []
    for epoch in range(2):
        for window in windows(blocks, seed, epoch, 3):
            expected = [i for block in window for i in range(ends[block] - int(blocks.records[block]), ends[block])]
            inside = [next(found) for _ in expected]
            assert sorted(inside) == sorted(expected)
            sorted_windows.append(inside == expected)

    assert sorted_windows.count(True) <= 1  # a window of one short block may come out as it went in


def test_windows_of_equal_length_are_shuffled_differently(tmp_path: Path) -> None:
    written = lossless(tmp_path, splits={"train": 36})
    blocks = blocks_in(written.manifest.splits["train"].shards)
    found = iter(stream(written, 36, 2))

    shuffles = set()
    for epoch in range(2):
        for window in windows(blocks, 0, epoch, 3):
            as_read = [4 * block + i for block in window for i in range(4)]
            shuffles.add(tuple(as_read.index(next(found)) for _ in as_read))

    assert len(shuffles) == 6


def test_any_record_of_a_window_can_come_first(tmp_path: Path) -> None:
    written = lossless(tmp_path, splits={"train": 36})
    blocks = blocks_in(written.manifest.splits["train"].shards)

    places = set()
    for epoch, one in enumerate(passes(stream(written, 36, 60, shuffle_buffer="1MB"), 36)):
        (window,) = windows(blocks, 0, epoch, len(blocks))
        places.add([4 * block + i for block in window for i in range(4)].index(one[0]))

    assert (
        min(places) <= 3 and max(places) >= 32
    )  # as read; a shuffle buffer shorter than the window never gives the end


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_tensorflow_permutes_as_the_pure_order_does(count: int) -> None:
    for seed in (0, 1, 2**64 - 1, order.epoch_seed(3, 4)):
        found = records.permutation(count, tf.constant(seed, tf.uint64))

        assert found.numpy().tolist() == order.permutation(count, seed).tolist()


def test_a_window_of_one_block_shuffles_inside_blocks_only(written: Written) -> None:
    blocks = blocks_in(written.manifest.splits["train"].shards)
    shard_blocks = [block for block, records in enumerate(blocks.records.tolist()) for _ in range(records)]

    found = [shard_blocks[number] for number in stream(written, count=1, shuffle_buffer=1)]

    assert [block for i, block in enumerate(found) if not i or found[i - 1] != block] == order.permutation(
        10, order.epoch_seed(0, 0)
    ).tolist()


def test_a_large_shuffle_buffer_is_one_window(written: Written) -> None:
    assert stream(written, shuffle_buffer="1GB") == stream(written, shuffle_buffer=10**12)
    assert byte_count("shuffle_buffer", "1GB") == 10**9


def test_a_split_of_one_record_is_a_stream_too(tmp_path: Path) -> None:
    written = lossless(tmp_path, splits={"train": 1}, classes=("daisy",))

    assert numbers(shardfeed.load(tmp_path, "train", 5), written, "train", 2) == [0] * 10


def test_without_epochs_the_stream_is_infinite(written: Written) -> None:
    assert shardfeed.load(written.path, "train", 8).cardinality() == tf.data.INFINITE_CARDINALITY


@pytest.mark.parametrize(
    ("epochs", "batch_size", "steps"),
    [(1, 8, 4), (3, 8, 13), (1, 37, 1), (4, 37, 4), (8, 200, 1), (7, 129, 2)],
    ids=str,
)
def test_epochs_end_the_stream_after_the_last_whole_batch(
    written: Written, epochs: int, batch_size: int, steps: int
) -> None:
    dataset = shardfeed.load(written.path, "train", batch_size, epochs=epochs, shuffle_buffer=THREE_BLOCKS)

    assert dataset.cardinality() == steps
    found = numbers(dataset, written, "train")
    assert found == stream(written, N, 8)[: steps * batch_size]


@pytest.mark.parametrize("batch_size", [1, 8, 128, 129])
@pytest.mark.parametrize("epochs", [None, 4])
def test_shapes_are_static(written: Written, batch_size: int, epochs: int | None) -> None:
    assert shardfeed.load(written.path, "train", batch_size, epochs=epochs).element_spec == (
        tf.TensorSpec([batch_size, 8, 12, 3], tf.uint8),
        tf.TensorSpec([batch_size], tf.int32),
    )


def test_training_true_makes_a_stream_of_any_split(written: Written) -> None:
    dataset = shardfeed.load(written.path, "validation", 10, training=True)

    assert sorted(numbers(dataset, written, "validation", 1)) == list(range(10))
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY


def test_nothing_adapts_at_run_time(written: Written) -> None:
    options = shardfeed.load(written.path, "train", 8).options()

    assert options.deterministic is True
    assert options.autotune.enabled is False
    assert options.threading.max_intra_op_parallelism == 1
    assert options.threading.private_threadpool_size == threads()
    assert options.experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.OFF
