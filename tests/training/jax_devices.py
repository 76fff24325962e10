"""Test program: one process of JAX with eight devices.

``python jax_devices.py DATASET`` prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=8"

import jax
import keras
import numpy as np

import shardfeed
from tests.training.exactness import BATCH, evaluate, load_quietly, tiny_model, truth


def main(dataset: str) -> dict[str, Any]:
    accelerator = shardfeed.detect_accelerator()
    info = shardfeed.info(dataset)
    model = tiny_model(steps_per_execution=3)
    evaluated = evaluate(model, load_quietly(info, "validation", BATCH))

    shapes: list[object] = []
    watched = watched_model(shapes, **shardfeed.compile_args(info, BATCH, accelerator))
    batches = shardfeed.load(info, "train", BATCH)
    watched.fit(batches, epochs=2, verbose=0, shuffle=False, **shardfeed.fit_args(info, BATCH, accelerator))
    return {
        "refused": [
            error(lambda: shardfeed.load(info, "train", 12)),
            error(lambda: shardfeed.load(info, "validation", 8, eval_remainder="partial")),
        ],
        "accelerator": [
            accelerator.kind,
            accelerator.replicas,
            accelerator.backend,
            accelerator.hosts,
            accelerator.text,
        ],
        "kept": shardfeed.detect_accelerator().strategy is keras.distribution.distribution() is accelerator.strategy,
        "evaluated": evaluated,
        "truth": truth(model, **np.load(os.path.join(dataset, "..", "validation.npz"))),
        "shape on a device, devices": shapes,
        "steps": int(watched.optimizer.iterations),
        "repeated": [repeated(info, epochs=1), repeated(info, epochs=2)],
        "auto_shard_dataset": error_under_keras_default(info, accelerator),
        "old Keras": errors_under_old_keras(info),
    }


def repeated(info: shardfeed.DatasetInfo, epochs: int) -> list[str]:
    """What shardfeed warns of where a model, which is not built yet, is trained for two epochs on
    ``epochs`` of the data.
    """
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    steps = None if epochs == 1 else info.steps_per_epoch("train", 24)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(shardfeed.load(info, "train", 24, epochs=epochs), epochs=2, steps_per_epoch=steps, verbose=0)
    return [str(one.message)[:39] for one in found if one.filename == __file__]


def watched_model(shapes: list[object], **compile_args: Any) -> keras.Model:
    """A model that notes in ``shapes`` how its batch lies on the devices, whenever a step is
    compiled.
    """

    class Watch(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: jax.Array) -> jax.Array:
            def note(sharding: jax.sharding.Sharding) -> None:
                shapes.append([sharding.shard_shape(inputs.shape), len(sharding.device_set)])

            jax.debug.inspect_array_sharding(inputs, callback=note)
            return inputs

    model = keras.Sequential([keras.Input((8, 8, 3)), Watch(), keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), **compile_args)
    return model


def error_under_keras_default(info: shardfeed.DatasetInfo, accelerator: shardfeed.Accelerator) -> str:
    """What ``fit_args`` says of a distribution as Keras makes it."""
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=keras.distribution.list_devices()))
    return error(lambda: shardfeed.fit_args(info, 24, accelerator))


def errors_under_old_keras(info: shardfeed.DatasetInfo) -> list[str]:
    """What detection and ``load`` say of a Keras that cannot leave the cut to ``load``."""
    keras.__version__ = "3.10.0"
    return [error(shardfeed.detect_accelerator), error(lambda: shardfeed.load(info, "train", 24))]


def error(call: Callable[[], object]) -> str:
    """What ``call`` refuses, or what it gave."""
    try:
        return str(call())
    except shardfeed.UsageError as refusal:
        return str(refusal)


print(json.dumps(main(sys.argv[1])))
