"""Test program: trains with ``shardfeed.fit`` until it has ended or is killed.

``python resumed.py DATASET STATE [SIGNAL STEP [PORTS COUNT NUMBER]]`` prints JSON; the last
three make it one of several processes of JAX. With a signal, the process
sends it to itself at the end of that step of the whole training; "24+3" is the third batch of the
validation after step 24. If STATE is "none", Keras' own ``fit`` trains.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any


def main(dataset: str, state: str, number: str = "", at: str = "", *host: str) -> dict[str, Any]:
    if host:
        import jax

        port, count, index = host
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port.partition(',')[0]}", int(count), int(index))

    import keras
    import numpy as np

    import shardfeed

    class Killed(keras.callbacks.Callback):  # type: ignore[misc]
        """Keeps a count of its own, which the state keeps too."""

        def __init__(self) -> None:
            super().__init__()
            self.steps = 0

        def state_dict(self) -> dict[str, Any]:
            return {"steps": self.steps}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.steps = state["steps"]

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            self.steps += 1
            if at == f"{self.steps}":
                os.kill(os.getpid(), getattr(signal, number))

        def on_test_batch_end(self, batch: int, logs: object = None) -> None:
            if at == f"{self.steps}+{batch + 1}":
                os.kill(os.getpid(), getattr(signal, number))

    if host:
        shardfeed.detect_accelerator()
    keras.utils.set_random_seed(7)
    info = shardfeed.info(dataset)
    train = shardfeed.load(info, "train", 16, seed=5, crop="random_resized", image_size=8)
    validation = shardfeed.load(info, "validation", 16, image_size=8)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.RandomFlip("horizontal", seed=3),
            keras.layers.Flatten(),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=4),
            keras.layers.Dense(3),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), weighted_metrics=["accuracy"])
    killed = Killed()
    options: dict[str, Any] = {
        "epochs": 3,
        "verbose": 0,
        "validation_data": validation,
        "callbacks": [
            keras.callbacks.EarlyStopping(patience=2, monitor="val_accuracy", restore_best_weights=True),
            keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, factor=0.5, min_delta=0.1),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
            killed,
        ],
    }
    if state == "none":
        history = model.fit(train, **shardfeed.fit_args(train), **options)
    else:
        history = shardfeed.fit(model, train, resume=state, save_steps=5, **options)
    return {
        "weights": [np.asarray(weight).tobytes().hex() for weight in model.get_weights()],
        "optimizer": [np.asarray(keras.ops.convert_to_numpy(one)).tobytes().hex() for one in model.optimizer.variables],
        "history": history.history,
        "epochs": history.epoch,
        "steps": killed.steps,
    }


print(json.dumps(main(*sys.argv[1:])))
