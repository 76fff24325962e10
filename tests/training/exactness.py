"""A model small enough to be computed by NumPy, and what Keras must say of it.

Runs in test programs on any backend.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import tensorflow as tf

import shardfeed

BATCH = 24  # divides by 8 replicas and by 3 hosts; 103 records leave 17 padding rows


def tiny_model(**compile_args: Any) -> Any:
    """One layer on 8 × 8 images; loss and two weighted metrics."""
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3), dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    model.compile(
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
            keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="entropy"),
        ],
        **compile_args,
    )
    return model


def truth(model: Any, pixels: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Loss and metrics of ``model`` over the records, in float64."""
    kernel, bias = (np.asarray(weight, np.float64) for weight in model.get_weights())
    logits = pixels.reshape(len(pixels), -1) / 255 @ kernel + bias
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]
    accuracy = (logits.argmax(axis=1) == labels).mean()
    return {"loss": float(losses.mean()), "accuracy": float(accuracy), "entropy": float(losses.mean())}


def evaluate(model: Any, batches: Any) -> dict[str, float]:
    return {name: float(value) for name, value in model.evaluate(batches, verbose=0, return_dict=True).items()}


def load_quietly(*args: Any, **options: Any) -> tf.data.Dataset:
    """``load`` without its warning that padding is weighted 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shardfeed.load(*args, **options)
