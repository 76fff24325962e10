"""``compile_args`` and ``fit_args``: executions that fill an epoch, whatever its length."""

from __future__ import annotations

import dataclasses
import gc
import re
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.accelerator import detect
from shardfeed.accelerator.detect import Accelerator
from tests.training.exactness import tiny_model

CPU = Accelerator("cpu", 1, "tensorflow", "", None)
TPU = Accelerator("tpu", 8, "tensorflow", "", None)
MIRRORED = Accelerator("gpu", 8, "tensorflow", "", None)
JAX = Accelerator("tpu", 8, "jax", "", None)
TORCH = Accelerator("cpu", 1, "torch", "", None)
EIGHT = "the global batch must be a multiple of 8, to be shared by 1 host with 8 devices in all. The nearest:"


def altered(path: Path, *, records: int = 203, size: int | None = 8) -> shardfeed.DatasetInfo:
    """The description of a dataset whose train split has so many records, and images of ``size`` ×
    ``size``.
    """
    info = shardfeed.info(path)
    split = dataclasses.replace(info.manifest.splits["train"], records=records)
    image = dataclasses.replace(info.manifest.image, height=size, width=size)
    return dataclasses.replace(info, manifest=dataclasses.replace(info.manifest, splits={"train": split}, image=image))


def arguments(
    info: shardfeed.DatasetInfo, batch_size: int, accelerator: Accelerator, split: str = "train"
) -> tuple[int, int]:
    compiled = shardfeed.compile_args(info, batch_size, accelerator, split)
    fitted = shardfeed.fit_args(info, batch_size, accelerator, split)
    assert (list(compiled), list(fitted)) == (["steps_per_execution"], ["steps_per_epoch"])
    return compiled["steps_per_execution"], fitted["steps_per_epoch"]


def test_a_folder_names_a_dataset_as_it_does_for_load(dataset: Path) -> None:
    assert shardfeed.compile_args(dataset, 24, TPU) == shardfeed.compile_args(shardfeed.info(dataset), 24, TPU)
    assert shardfeed.fit_args(str(dataset), 24, TPU) == shardfeed.fit_args(shardfeed.info(dataset), 24, TPU)


def test_another_batch_than_load_was_given_is_warned_of(dataset: Path, recwarn: pytest.WarningsRecorder) -> None:
    info = shardfeed.info(dataset)
    shardfeed.fit_args(info, 12, CPU)
    streams = [shardfeed.load(info, "train", size) for size in (24, 16)]
    shardfeed.fit_args(info, 24, CPU)
    shardfeed.compile_args(info, 12, CPU)
    assert not recwarn.list

    with pytest.warns(
        UserWarning, match="fit_args was given batch_size=12 for train, load 16 and 24: an epoch"
    ) as warned:
        shardfeed.fit_args(info, 12, CPU)
    assert warned[0].filename == __file__

    del streams
    gc.collect()
    shardfeed.fit_args(info, 12, CPU)


def test_a_stream_tells_its_split_and_its_batch_size(dataset: Path) -> None:
    train = shardfeed.load(dataset, "validation", 24, training=True)
    with pytest.warns(UserWarning, match="is for training"):  # what the name of the split looks like
        expected = arguments(shardfeed.info(dataset), 24, TPU, "validation")

    found = shardfeed.compile_args(train, accelerator=TPU) | shardfeed.fit_args(train, 24, TPU)

    assert tuple(found.values()) == expected


def test_a_distributed_stream_is_known_too(dataset: Path) -> None:
    train = shardfeed.distribute(tf.distribute.get_strategy(), dataset, "train", 24)

    assert shardfeed.fit_args(train, accelerator=CPU) == shardfeed.fit_args(dataset, 24, CPU)


def test_the_accelerator_is_the_one_that_was_detected_last(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = (shardfeed.compile_args, shardfeed.fit_args)
    train, uneven = (shardfeed.load(dataset, "train", batch_size) for batch_size in (24, 20))
    monkeypatch.setattr(detect, "_last", None)
    for function in functions:
        assert function(train) == function(train, accelerator=CPU)
    monkeypatch.setattr(detect, "_on_tensorflow", lambda: TPU)
    shardfeed.detect_accelerator()
    for function in functions:
        assert function(train) == function(train, accelerator=TPU)
        with pytest.raises(shardfeed.UsageError, match="batch_size=20: the global batch must be a multiple of 8"):
            function(uneven)


def test_without_detection_the_strategy_in_scope_counts(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "_last", None)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")

    with strategy.scope():
        assert detect.current_accelerator().strategy is strategy
    assert detect.current_accelerator().strategy is None


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            lambda path: shardfeed.load(path, "train", 24).map(lambda x, y: (x, y)),
            r"fit_args\(_MapDataset\): expected the training stream that load or distribute gave\. One that was "
            r"transformed afterwards is not known: write fit_args\(info, batch_size, split='train'\)\.",
        ),
        (lambda path: shardfeed.load(path, "validation", 24), r"fit_args\(.*\): expected the training stream"),
        (lambda path: [1], r"fit_args\(list\): expected the training stream"),
        (lambda path: path, r"fit_args\(.*\): batch_size is missing\. Give the stream itself, fit_args\(train\), or"),
    ],
    ids=["transformed", "evaluation", "a list", "no batch size"],
)
@pytest.mark.filterwarnings("ignore:.*rows of weight 0:UserWarning")
def test_what_is_no_stream_names_the_explicit_form(dataset: Path, train: Any, message: str) -> None:
    with pytest.raises(shardfeed.UsageError, match=message):
        shardfeed.fit_args(train(dataset))


def test_another_batch_size_than_the_streams_is_refused(dataset: Path) -> None:
    train = shardfeed.load(dataset, "train", 24)

    with pytest.raises(
        shardfeed.UsageError, match=r"^compile_args\(train, batch_size=12\): the stream has batch_size=24\."
    ):
        shardfeed.compile_args(train, 12)


@pytest.mark.parametrize("accelerator", [CPU, TPU], ids=["cpu", "tpu"])
def test_an_execution_is_the_largest_of_32_to_64_that_leaves_the_fewest_steps_over(
    dataset: Path, accelerator: Accelerator
) -> None:
    batch = accelerator.replicas
    for steps in (*range(1, 200), 12_463):
        execution, epoch = arguments(altered(dataset, records=steps * batch), batch, accelerator)

        allowed = range(-(-min(steps, 64) // 2), min(steps, 64) + 1)
        fewest = min(steps % other for other in allowed)
        assert execution == max(other for other in allowed if steps % other == fewest)
        assert epoch == steps - fewest


@pytest.mark.parametrize("accelerator", [MIRRORED, TORCH], ids=["mirrored strategy, several replicas", "torch"])
def test_one_step_at_a_time_where_keras_takes_no_more(dataset: Path, accelerator: Accelerator) -> None:
    assert arguments(altered(dataset, records=8_000), 8, accelerator) == (1, 1000)


@pytest.mark.parametrize(
    ("size", "batch_size", "execution"),
    [(8, 128, 64), (224, 128, 12), (224, 1024, 1), (512, 1024, 1), (None, 592, 3)],
    ids=["tiny", "224 x 128", "224 x 1024", "more than the limit alone", "varying size, as 224"],
)
def test_the_batches_of_an_execution_on_jax_are_at_most_256_mib(
    dataset: Path, size: int | None, batch_size: int, execution: int
) -> None:
    assert arguments(altered(dataset, records=192 * batch_size, size=size), batch_size, JAX)[0] == execution


@pytest.mark.parametrize(
    ("batch_size", "message"),
    [
        (100, f"batch_size=100: {EIGHT} 96 or 104."),
        (3, f"batch_size=3: {EIGHT} 8."),
        (0, "batch_size=0: expected an integer of at least 1."),
    ],
)
@pytest.mark.parametrize("function", [shardfeed.compile_args, shardfeed.fit_args])
def test_a_batch_that_does_not_divide_names_the_nearest_that_do(
    dataset: Path, function: Any, batch_size: int, message: str
) -> None:
    with pytest.raises(shardfeed.UsageError, match=f"^{re.escape(message)}$"):
        function(shardfeed.info(dataset), batch_size, TPU)


def test_something_else_than_an_accelerator_is_refused(dataset: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^accelerator='tpu': expected what detect_accelerator\(\) gave\.$"):
        shardfeed.compile_args(shardfeed.info(dataset), 8, "tpu")  # type: ignore[arg-type]


class Steps(keras.callbacks.Callback):  # type: ignore[misc]
    """Counts what Keras really runs: the optimizer's steps at the end of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.counts.append(int(self.model.optimizer.iterations))


def test_keras_runs_as_many_steps_as_asked_for(dataset: Path) -> None:
    train, steps = shardfeed.load(dataset, "train", 2), Steps()
    model, fit_args = tiny_model(**shardfeed.compile_args(train)), shardfeed.fit_args(train)
    assert fit_args == {"steps_per_epoch": 100}  # of 101; two executions

    model.fit(train, epochs=2, verbose=0, callbacks=[steps], **fit_args)

    assert steps.counts == [100, 200]
