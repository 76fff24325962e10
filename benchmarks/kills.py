"""Kills a Keras training again and again, and compares its end with that of one that nobody killed.

A training with dropout, batch normalisation, Adam and a validation per epoch is started, killed by
SIGKILL at a random step, started again, and so on. It must end with equal weights and an equal
optimizer, bit for bit.

``--computed`` kills the stream alone, without a model: each time it goes on from its last
``state_dict()`` on another number of hosts, 1, 2, 4 or 8. Steps that were read after that state
count for nothing, as after a real kill. Then every record must have been read once per pass.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import where
from numpy.typing import NDArray

_HOSTS = (1, 2, 4, 8)
_EPOCHS, _BATCH, _RECORDS = 40, 16, 320  # 800 steps


def train(dataset: str, state: str) -> None:
    """Trains to the end; prints a line per step, then the digest of weights and optimizer."""
    import keras

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
        digest.update(np.asarray(variable).tobytes())
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


def numbers(
    dataset: str, steps: int, hosts: int, state: dict[str, object] | None
) -> tuple[NDArray[np.int64], list[str]]:
    """Numbers of the records of ``steps`` global batches from ``state`` on, [steps, batch size].

    And each host's state before each of these steps and after the last, as JSON; they are equal.
    """
    import shardfeed

    columns, states = [], []
    for host in range(hosts):
        stream = shardfeed.array_batches(
            dataset, "train", _BATCH, host=(host, hosts), as_dict=True, shuffle_buffer=8_000, threads=1
        )
        if state is not None:
            stream.load_state_dict(state)
        seen, rows = [json.dumps(stream.state_dict())], []
        for batch in itertools.islice(stream, steps):
            rows.append([int(key.split(b"/")[-1][:5]) for key in batch["key"]])
            seen.append(json.dumps(stream.state_dict()))
        columns.append(np.array(rows, np.int64).reshape(steps, _BATCH // hosts))
        states.append(seen)
    assert all(seen == states[0] for seen in states)
    return np.stack(columns, axis=2).reshape(steps, _BATCH), states[0]


def compute(dataset: str, records: int, kills: int, draw: random.Random) -> None:
    """Prints what a stream that was killed ``kills`` times has lost and doubled."""
    state, parts, largest, hosts, left = None, [], 0, 1, 0
    began = time.monotonic()
    for number in range(kills + 1):
        read = draw.randrange(2, 24)
        saved = read if number == kills else draw.randrange(1, read + 1)  # the kill comes after step ``read``
        rows, states = numbers(dataset, read, hosts, state)
        parts.append(rows[:saved])
        state, largest = json.loads(states[saved]), max(largest, len(states[saved]))
        left += read - saved
        hosts = draw.choice([count for count in _HOSTS if count != hosts])
    stream = np.concatenate(parts).ravel()
    passes = len(stream) // records
    counts = np.stack(
        [np.bincount(one, minlength=records) for one in stream[: passes * records].reshape(passes, records)]
    )
    whole, _ = numbers(dataset, len(stream) // _BATCH, 1, None)
    print(
        f"computed: {kills:,} kills over {passes:,} passes of {records:,} records, each continued on another number of hosts: "
        f"records lost {int((counts == 0).sum())}, doubled {int((counts > 1).sum())}; order of an undisturbed stream: "
        f"{'equal' if np.array_equal(stream, whole.ravel()) else 'DIFFERENT'}; {left:,} steps read again; state at most "
        f"{largest} B; {time.monotonic() - began:.0f} s",
        flush=True,
    )


def main() -> None:
    """Prints, per backend, the kills and whether the ends are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="of a training, on each backend")
    parser.add_argument("--computed", type=int, default=0, help="kills of a stream without a model")
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
        if args.computed:
            from tests.kit.datasets import write_dataset

            small = write_dataset(Path(folder) / "small", splits={"train": 517}, image_format="raw", size=(2, 2))
            compute(str(small.path), 517, args.computed, draw)
        for backend in args.backends if args.kills else ():
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
