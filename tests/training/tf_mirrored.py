"""Test program: TensorFlow with two logical CPUs. In the last step of an evaluation, the second one
gets nothing but padding.

``python tf_mirrored.py DATASET`` prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

import shardfeed
from tests.training.exactness import BATCH, evaluate, load_quietly, tiny_model, truth


def main(dataset: str) -> dict[str, Any]:
    # With a thread per core, iterators of several devices wait for each other when they are freed.
    tf.config.threading.set_inter_op_parallelism_threads(32)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(2)])
    with strategy.scope():
        accelerator = shardfeed.detect_accelerator()
    info = shardfeed.info(dataset)

    def new_model() -> Any:
        with accelerator.scope():
            return tiny_model(**shardfeed.compile_args(info, BATCH, accelerator))

    def weights_after_fit(batches: Any) -> list[float]:
        model = new_model()
        model.fit(batches, verbose=0, shuffle=False, **shardfeed.fit_args(info, BATCH, accelerator))
        weights: list[float] = np.concatenate([weight.ravel() for weight in model.get_weights()]).tolist()
        return weights

    model = new_model()
    evaluations = {
        "load": load_quietly(info, "validation", BATCH),
        "distribute": distribute_quietly(strategy, info, "validation"),
    }
    return {
        "accelerator": [accelerator.replicas, accelerator.text],
        "truth": truth(model, **np.load(os.path.join(dataset, "..", "validation.npz"))),
        "evaluations": {name: evaluate(model, batches) for name, batches in evaluations.items()},
        "steps": steps_of(strategy, info),
        "repeated": repeated(strategy, info),
        "fit on distribute": weights_after_fit(shardfeed.distribute(strategy, info, "train", BATCH)),
        "fit on load": weights_after_fit(shardfeed.load(info, "train", BATCH)),
    }


def distribute_quietly(strategy: Any, info: shardfeed.DatasetInfo, split: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shardfeed.distribute(strategy, info, split, BATCH)


def repeated(strategy: Any, info: shardfeed.DatasetInfo) -> list[str]:
    """What is warned of in two readings of a distributed stream that ends."""
    shared = shardfeed.distribute(strategy, info, "train", BATCH, epochs=1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            for _ in shared:
                pass
    return [str(one.message)[:39] for one in found]


def steps_of(strategy: Any, info: shardfeed.DatasetInfo) -> list[Any]:
    """20 steps of ``distribute``: shapes on the replicas, and whether they hold the records of a
    step of ``load``.
    """
    shared, whole = (
        shardfeed.distribute(strategy, info, "train", BATCH, seed=5),
        shardfeed.load(info, "train", BATCH, seed=5),
    )
    steps = []
    for (images, labels), (expected_images, expected_labels) in zip(shared, whole.take(20), strict=False):
        images, labels = (strategy.experimental_local_results(part) for part in (images, labels))
        same = np.array_equal(np.concatenate(images), expected_images) and np.array_equal(
            np.concatenate(labels), expected_labels
        )
        steps.append([[image.shape.as_list() for image in images], same])
    return steps


print(json.dumps(main(sys.argv[1])))
