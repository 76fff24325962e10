"""Evaluation: every record once, in shard order, with weights that make Keras exact."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from tests.kit.datasets import Written
from tests.reader.streams import lossless, numbers

N = 103


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return lossless(tmp_path_factory.mktemp("dataset"), splits={"train": 20, "validation": N})


def load(written: Written, batch_size: int, **options: Any) -> tf.data.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shardfeed.load(written.path, "validation", batch_size, **options)


@pytest.mark.parametrize("batch_size", [1, 8, 103, 104, 128, 129, 300])
@pytest.mark.parametrize("remainder", ["pad", "partial"])
def test_every_record_comes_once_in_shard_order(written: Written, batch_size: int, remainder: str) -> None:
    dataset = load(written, batch_size, eval_remainder=remainder)
    steps = -(-N // batch_size)

    assert dataset.cardinality() == steps
    padding = [-1] * (steps * batch_size - N) if remainder == "pad" else []
    assert numbers(dataset, written, "validation") == [*range(N), *padding]


@pytest.mark.parametrize(("batch_size", "padded"), [(8, 104), (103, 103), (128, 128), (50, 150)])
def test_real_rows_weigh_padded_over_real_and_padding_nothing(written: Written, batch_size: int, padded: int) -> None:
    weights = np.concatenate([weights for *_, weights in load(written, batch_size).as_numpy_iterator()])

    assert weights.tolist() == [np.float32(padded / N)] * N + [0] * (padded - N)


def test_partial_batches_weigh_one(written: Written) -> None:
    *_, (images, labels, weights) = load(written, 50, eval_remainder="partial").as_numpy_iterator()

    assert images.shape == (3, 8, 12, 3) and labels.shape == (3,) and weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize("batch_size", [1, 8, 103, 129])
def test_padded_shapes_are_static(written: Written, batch_size: int) -> None:
    assert load(written, batch_size).element_spec == (
        tf.TensorSpec([batch_size, 8, 12, 3], tf.uint8),
        tf.TensorSpec([batch_size], tf.int32),
        tf.TensorSpec([batch_size], tf.float32),
    )


def test_only_the_batch_dimension_of_partial_batches_is_open(written: Written) -> None:
    assert load(written, 8, eval_remainder="partial").element_spec == (
        tf.TensorSpec([None, 8, 12, 3], tf.uint8),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None], tf.float32),
    )


@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("batch_size", [3, 51, 102, 105])
def test_evaluation_steps_are_the_batches_of_load_and_array_batches(
    written: Written, batch_size: int, hosts: int
) -> None:
    info = shardfeed.info(written.path)
    options: dict[str, Any] = {"host": (hosts - 1, hosts)}

    steps = info.evaluation_steps("validation", batch_size)

    assert len(load(written, batch_size, **options)) == steps
    assert len(shardfeed.array_batches(info, "validation", batch_size, **options)) == steps


def test_the_train_split_can_be_evaluated(written: Written) -> None:
    dataset = shardfeed.load(written.path, "train", 4, training=False)

    assert numbers(dataset, written, "train") == list(range(20))


def test_padding_is_warned_about_once_and_names_what_is_exact(written: Written) -> None:
    expected = (
        "47 rows of weight 0 fill up the last batch of validation: Keras' weighted_metrics= and a loss of its default "
        "reduction are exact, metrics= are not."
    )

    with pytest.warns(UserWarning, match=f"^{re.escape(expected)}$") as found:
        shardfeed.load(written.path, "validation", 50)

    assert len(found) == 1 and found[0].filename == __file__


@pytest.mark.parametrize("options", [{"batch_size": 103}, {"batch_size": 50, "eval_remainder": "partial"}], ids=str)
def test_without_padding_there_is_no_warning(written: Written, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shardfeed.load(written.path, "validation", **options)


@pytest.mark.parametrize("remainder", ["pad", "partial"])
@pytest.mark.parametrize("batch_size", [8, 50])
def test_keras_evaluates_to_the_loss_and_metrics_of_the_records(
    written: Written, batch_size: int, remainder: str
) -> None:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((8, 12, 3), dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="entropy"),
        ],
    )

    found = model.evaluate(load(written, batch_size, eval_remainder=remainder), verbose=0, return_dict=True)

    kernel, bias = (np.asarray(weight, np.float64) for weight in model.get_weights())
    pixels = np.stack([record.pixels for record in written.records["validation"]]).reshape(N, -1) / 255
    labels = np.array([record.label for record in written.records["validation"]])
    logits = pixels @ kernel + bias
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(N), labels]
    assert found == pytest.approx(
        {
            "loss": losses.mean(),
            "accuracy": (logits.argmax(axis=1) == labels).mean(),
            "entropy": losses.mean(),
        },
        rel=1e-6,
    )


@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "sum"])
def test_losses_of_other_reductions_are_exact_without_padding_only(written: Written, reduction: str) -> None:
    keras.utils.set_random_seed(3)
    layers = keras.Input((8, 12, 3), dtype="uint8"), keras.layers.Flatten(), keras.layers.Dense(3)
    model = keras.Sequential(layers)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction))

    padded, partial = (
        model.evaluate(load(written, 50, eval_remainder=remainder), verbose=0) for remainder in ("pad", "partial")
    )

    bare = load(written, 50, eval_remainder="partial").map(lambda images, labels, weights: (images, labels))
    exact = model.evaluate(bare, verbose=0)
    assert partial == pytest.approx(exact, rel=1e-6)
    assert padded != pytest.approx(exact, rel=1e-3)


def test_predictions_that_leave_padding_out_are_one_for_each_key(written: Written) -> None:
    records = written.records["validation"]
    model = keras.Sequential([keras.Input((8, 12, 3)), keras.layers.Flatten(), keras.layers.Dense(3)])

    answers = {}
    for batch in load(written, 50, as_dict=True).as_numpy_iterator():
        rows = zip(batch["key"], model.predict_on_batch(batch["image"]), batch["weight"], strict=True)
        answers |= {key: answer for key, answer, weight in rows if weight}

    assert list(answers) == [record.key for record in records]
    expected = model.predict_on_batch(np.stack([record.pixels for record in records]))
    assert np.stack(list(answers.values())) == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_a_model_fits_on_the_stream_and_validates_exactly_on_the_split(written: Written, tmp_path: Path) -> None:
    info = shardfeed.info(written.path)
    model = keras.Sequential(
        [
            keras.Input(info.image_shape, dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(len(info.classes)),
        ]
    )
    model.compile(
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )

    history = model.fit(
        shardfeed.load(info, "train", 8),
        steps_per_epoch=info.steps_per_epoch("train", 8),
        epochs=2,
        validation_data=load(written, 10),
        class_weight=info.class_weight("train"),
        verbose=0,
    ).history

    assert sorted(history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert all(len(values) == 2 and np.isfinite(values).all() for values in history.values())
    expected = model.evaluate(load(written, 10, eval_remainder="partial"), verbose=0, return_dict=True)
    assert history["val_loss"][-1] == pytest.approx(expected["loss"], rel=1e-6)
    assert history["val_accuracy"][-1] == pytest.approx(expected["accuracy"], rel=1e-6)
