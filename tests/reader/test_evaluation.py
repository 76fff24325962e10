"""Evaluation by both readers: every record once, in shard order, with weights that make means
exact.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from tests.kit.datasets import Written
from tests.reader.streams import READERS, by_reader, lossless, numbers

N = 103


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return lossless(tmp_path_factory.mktemp("dataset"), splits={"train": 20, "validation": N})


def quietly(reader: Any, written: Written, batch_size: int, split: str = "validation", **options: Any) -> Any:
    """Evaluation batches of ``reader`` without its warning that padding is weighted 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reader(written.path, split, batch_size, training=False, **options)


def load(written: Written, batch_size: int, **options: Any) -> tf.data.Dataset:
    return quietly(shardfeed.load, written, batch_size, **options)


@by_reader(
    "split,hosts,share",
    [
        *(("validation", *cut) for cut in [(1, 103), (1, 129), (3, 7), (3, 17), (8, 13)]),
        ("train", 23, 1),
    ],
    load=[1, 3],  # padding of rows, and of a batch on two of three hosts
)
def test_hosts_read_every_record_once_in_as_many_batches_with_weights_that_make_the_mean_exact(
    written: Written, reader: Any, split: str, hosts: int, share: int
) -> None:
    records = written.records[split]
    steps = -(-len(records) // (share * hosts))
    together: list[int] = []
    means = []
    for host in range(hosts):
        stream = quietly(reader, written, share * hosts, split=split, host=(host, hosts))
        batches = [tuple(map(np.asarray, batch)) for batch in stream]
        read = numbers(batches, written, split)
        weights = np.concatenate([weights for *_, weights in batches])
        assert len(stream) == len(batches) == steps
        assert shardfeed.info(written.path).evaluation_steps(split, share * hosts) == steps
        assert weights.dtype == np.float32 and len(weights) == share * steps
        assert weights.tolist() == [
            0 if number < 0 else np.float32(share * hosts * steps / len(records)) for number in read
        ]
        assert -1 not in read[: read.index(-1)] if -1 in read else True
        means += [(w * x.astype(np.float64).mean(axis=(1, 2, 3))).mean() for x, _, w in batches]
        together += [number for number in read if number >= 0]

    assert together == list(range(len(records)))
    assert np.mean(means) == pytest.approx(np.mean([one.pixels.mean() for one in records]), 1e-6)


@by_reader("batch_size", [8, 103, 300], load=[0])
def test_partial_batches_weigh_one(written: Written, reader: Any, batch_size: int) -> None:
    stream = quietly(reader, written, batch_size, eval_remainder="partial")

    batches = [tuple(map(np.asarray, batch)) for batch in stream]
    assert [len(x) for x, _, _ in batches] == [*[batch_size] * (N // batch_size), *filter(None, [N % batch_size])]
    assert all(w.dtype == np.float32 and (w == 1).all() for _, _, w in batches)
    assert numbers(batches, written, "validation") == list(range(N))


@pytest.mark.parametrize(("remainder", "rows"), [("pad", 129), ("partial", None)])
def test_only_the_batch_dimension_of_partial_batches_is_open(
    written: Written, remainder: str, rows: int | None
) -> None:
    assert load(written, 129, eval_remainder=remainder).element_spec == (
        tf.TensorSpec([rows, 8, 12, 3], tf.uint8),
        tf.TensorSpec([rows], tf.int32),
        tf.TensorSpec([rows], tf.float32),
    )


EXACT = {
    shardfeed.load: "Keras' weighted_metrics= and a loss of its default reduction are exact, metrics= are not.",
    shardfeed.array_batches: "a mean of w * loss is exact, one of loss is not.",
}


@READERS
@pytest.mark.parametrize(("batch_size", "host", "rows"), [(50, (0, 1), 47), (40, (1, 8), 17)], ids=str)
def test_padding_of_all_hosts_is_warned_of_at_the_callers_line(
    written: Written, reader: Any, batch_size: int, host: tuple[int, int], rows: int
) -> None:
    with pytest.warns(UserWarning) as warned:
        reader(written.path, "validation", batch_size, host=host)

    assert [(str(one.message), one.filename) for one in warned] == [
        (f"{rows} rows of weight 0 fill up the last batch of validation: {EXACT[reader]}", __file__)
    ]


@READERS
@pytest.mark.parametrize("options", [{"batch_size": 103}, {"batch_size": 50, "eval_remainder": "partial"}], ids=str)
def test_without_padding_there_is_no_warning(written: Written, reader: Any, options: dict[str, Any]) -> None:
    reader(written.path, "validation", **options)  # a warning would be an error


def test_a_host_looks_at_the_shards_that_it_evaluates_only(written: Written, tmp_path: Path) -> None:
    lossless(tmp_path, splits={"validation": N})
    (tmp_path / "validation-00002-of-00003.tfrecord").unlink()

    assert len(load(Written(tmp_path, written.manifest, {}), N * 2, host=(0, 2))) == 1
    with pytest.raises(shardfeed.DatasetError, match=r"validation-00002-of-00003\.tfrecord is damaged"):
        shardfeed.load(tmp_path, "validation", N * 2, host=(1, 2))


def linear() -> keras.Model:
    keras.utils.set_random_seed(3)
    layers = keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)
    return keras.Sequential([keras.Input((8, 12, 3), dtype="uint8"), *layers])


@pytest.mark.parametrize(("batch_size", "remainder"), [(8, "pad"), (50, "partial")])
def test_keras_evaluates_to_the_loss_and_metrics_of_the_records(
    written: Written, batch_size: int, remainder: str
) -> None:
    model = linear()
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
        {"loss": losses.mean(), "accuracy": (logits.argmax(axis=1) == labels).mean(), "entropy": losses.mean()},
        rel=1e-6,
    )


@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "sum"])
def test_losses_of_other_reductions_are_exact_without_padding_only(written: Written, reduction: str) -> None:
    model = linear()
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction))

    padded, partial = (load(written, 50, eval_remainder=remainder) for remainder in ("pad", "partial"))

    exact = model.evaluate(partial.map(lambda images, labels, weights: (images, labels)), verbose=0)
    assert model.evaluate(partial, verbose=0) == pytest.approx(exact, rel=1e-6)
    assert model.evaluate(padded, verbose=0) != pytest.approx(exact, rel=1e-3)


def test_a_model_fits_on_the_stream_and_validates_exactly_on_the_split(written: Written) -> None:
    info = shardfeed.info(written.path)
    model = linear()
    model.compile(
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )

    history = model.fit(
        shardfeed.load(info, "train", 8),
        steps_per_epoch=info.steps_per_epoch("train", 8),
        validation_data=load(written, 10),
        class_weight=info.class_weight("train"),
        verbose=0,
    ).history

    expected = model.evaluate(load(written, 10, eval_remainder="partial"), verbose=0, return_dict=True)
    assert history["val_loss"][-1] == pytest.approx(expected["loss"], rel=1e-6)
    assert history["val_accuracy"][-1] == pytest.approx(expected["accuracy"], rel=1e-6)
