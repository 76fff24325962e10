"""A training stream that ends and is read again repeats itself, and says so."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import shardfeed
from tests.kit.datasets import write_dataset
from tests.reader.streams import READERS

REPEATED = (
    "train: this stream of epochs=1 was read to its end and is read again. It repeats the same order, the same random crops "
    "and leaves out the same records. Pass epochs=N and read it once, or leave epochs out and give fit a steps_per_epoch."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), image_format="raw").path


def warned(use: Callable[[], object]) -> list[str]:
    """Texts of shardfeed's warnings in ``use``; Keras has some of its own."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        use()
    return [str(one.message) for one in found if one.filename == __file__]


def read(batches: Any, times: int) -> None:
    for _ in range(times):
        for _ in batches:
            pass


def model() -> keras.Model:
    """Not built before its first batch."""
    layers = keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@READERS
def test_a_second_reading_to_the_end_is_warned_of_once_at_the_line_that_made_the_stream(
    folder: Path, reader: Any
) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    batches = reader(folder, "train", 8, epochs=1)
    next(iter(batches)), next(iter(batches))  # these do not count
    read(batches, 1)

    with pytest.warns(UserWarning) as found:
        read(batches, 3)

    assert [(str(one.message), one.filename, one.lineno) for one in found] == [(REPEATED, __file__, line)]


@READERS
def test_a_stream_of_one_batch_may_be_read_twice_because_keras_on_jax_takes_one_to_build(
    folder: Path, reader: Any
) -> None:
    one = shardfeed.info(folder).splits["train"].num_records
    batches = reader(folder, "train", one, epochs=1)

    assert warned(lambda: read(batches, 2)) == []
    assert warned(lambda: read(batches, 2)) == [REPEATED]


@READERS
def test_evaluation_may_be_repeated(folder: Path, reader: Any) -> None:
    batches = reader(folder, "train", 1, training=False)

    assert warned(lambda: read(batches, 3)) == []


def test_fit_with_more_epochs_than_the_stream_is_warned_of(folder: Path) -> None:
    batches, trained = shardfeed.load(folder, "train", 8, epochs=1), model()

    assert warned(lambda: trained.fit(batches, verbose=0)) == []
    assert warned(lambda: trained.fit(batches, epochs=2, verbose=0)) == [REPEATED]


def test_fit_that_reads_the_stream_once_is_quiet(folder: Path) -> None:
    batches = shardfeed.load(folder, "train", 8, epochs=3)

    assert warned(lambda: model().fit(batches, steps_per_epoch=4, epochs=3, verbose=0)) == []


def test_what_is_made_of_the_stream_and_read_inside_a_tf_function_is_watched_too(folder: Path) -> None:
    batches = shardfeed.load(folder, "train", 8, epochs=1, as_dict=True)
    changed = batches.map(lambda columns: columns["image"]).prefetch(1)

    @tf.function  # type: ignore[untyped-decorator]
    def count() -> Any:
        total = 0
        for _ in changed:
            total += 1
        return total

    assert warned(lambda: [count(), count()]) == [REPEATED]


def test_distribute_is_watched_too(folder: Path) -> None:
    batches = shardfeed.distribute(tf.distribute.get_strategy(), folder, "train", 8, epochs=1)

    assert warned(lambda: read(batches, 2)) == [REPEATED]


def test_the_iterator_of_a_watched_stream_can_be_saved_in_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    batches = iter(shardfeed.load(folder, "train", 8, epochs=2))
    checkpoint = tf.train.Checkpoint(batches=batches)
    next(batches)

    saved = checkpoint.save(tmp_path / "checkpoint")
    expected = next(batches)[0].numpy()
    checkpoint.restore(saved)

    assert (next(batches)[0].numpy() == expected).all()


def test_benchmark_neither_warns_nor_counts_as_a_reading(folder: Path) -> None:
    batches = shardfeed.load(folder, "train", 8, epochs=1)

    assert warned(lambda: shardfeed.benchmark(batches, folder, seconds=0.2)) == []
    assert warned(lambda: read(batches, 1)) == []
