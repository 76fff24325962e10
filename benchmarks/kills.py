"""Kills a Keras training again and again, and compares its end with that of one that nobody killed.

A training with dropout, batch normalisation, Adam and a validation per epoch is started, killed by
SIGKILL at a random step, started again, and so on. It must end with equal weights and an equal
optimizer, bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import where

_EPOCHS, _BATCH, _RECORDS = 40, 16, 320  # 800 steps


def train(dataset: str, state: str) -> None:
    """Trains to the end; prints a line per step, then the digest of weights and optimizer."""
    import keras
    import numpy as np

    import shardfeed

    class Steps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            print("step", flush=True)

        def state_dict(self) -> dict[str, object]:
            return {}

        def load_state_dict(self, state: dict[str, object]) -> None:
            pass

    keras.utils.set_random_seed(1)
    stream = shardfeed.load(dataset, "train", _BATCH, crop="random_resized")
    validation = shardfeed.load(dataset, "validation", 40)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), weighted_metrics=["accuracy"])
    history = shardfeed.fit(
        model, stream, resume=state, epochs=_EPOCHS, save_steps=5, validation_data=validation, verbose=0, callbacks=[Steps()]
    )  # fmt: skip
    digest = hashlib.sha256(repr(sorted(history.history.items())).encode())
    for variable in [*model.variables, *model.optimizer.variables]:
        digest.update(np.asarray(variable.value).tobytes())
    print("end", digest.hexdigest())


def run(backend: str, dataset: str, state: str, most_steps: int | None) -> str | None:
    """The digest, or None if the training was killed after ``most_steps``."""
    env = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, __file__, "--train", dataset, state]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for steps, line in enumerate(process.stdout):
            if line.startswith("end"):
                return line.split()[1]
            if most_steps is not None and steps >= most_steps:
                process.kill()
                return None
    raise SystemExit(f"the training on {backend} failed: {' '.join(command)}")


def main() -> None:
    """Prints, per backend, the kills and whether the ends are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--backends", nargs="+", default=["tensorflow", "jax"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(*args.train)
        return

    import shardfeed.testing

    print(where())
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        dataset = str(Path(folder) / "dataset")
        shardfeed.testing.make_dataset(dataset, {"train": _RECORDS, "validation": 70})
        for backend in args.backends:
            whole = run(backend, dataset, f"{folder}/{backend}-whole", None)
            kills, began, end = 0, time.monotonic(), None
            while end is None:
                steps = draw.randrange(1, 45) if kills < args.kills else None
                end = run(backend, dataset, f"{folder}/{backend}-killed", steps)
                kills += end is None
            print(
                f"{backend}: {kills} kills, ends {'equal' if end == whole else 'DIFFERENT'}, {time.monotonic() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
