"""Every integer that a trainer passes, whatever the function: what cannot be is refused by name, before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.accelerator.detect import Accelerator
from shardfeed.benchmarking.stream import benchmark_reader

CPU = Accelerator("cpu", 1, "tensorflow", "", None)
STRATEGY = tf.distribute.get_strategy()

Call = Callable[[Path, Any], object]
CALLS: dict[str, Call] = {
    "load batch_size": lambda path, value: shardfeed.load(path, "train", value),
    "load epochs": lambda path, value: shardfeed.load(path, "train", 8, epochs=value),
    "load start_step": lambda path, value: shardfeed.load(path, "train", 8, start_step=value),
    "load shuffle_buffer": lambda path, value: shardfeed.load(path, "train", 8, shuffle_buffer=value),
    "load host[0]": lambda path, value: shardfeed.load(path, "train", 8, host=(value, 2)),
    "load host[1]": lambda path, value: shardfeed.load(path, "train", 8, host=(0, value)),
    "load image_size": lambda path, value: shardfeed.load(path, "train", 8, image_size=value),
    "load image_size[1]": lambda path, value: shardfeed.load(path, "train", 8, image_size=(8, value)),
    "array_batches batch_size": lambda path, value: shardfeed.array_batches(path, "train", value),
    "array_batches epochs": lambda path, value: shardfeed.array_batches(path, "train", 8, epochs=value),
    "array_batches start_step": lambda path, value: shardfeed.array_batches(path, "train", 8, start_step=value),
    "array_batches shuffle_buffer": lambda path, value: shardfeed.array_batches(path, "train", 8, shuffle_buffer=value),
    "array_batches threads": lambda path, value: shardfeed.array_batches(path, "train", 8, threads=value),
    "array_batches host[0]": lambda path, value: shardfeed.array_batches(path, "train", 8, host=(value, 2)),
    "array_batches host[1]": lambda path, value: shardfeed.array_batches(path, "train", 8, host=(0, value)),
    "fit_args batch_size": lambda path, value: shardfeed.fit_args(path, value, CPU),
    "compile_args batch_size": lambda path, value: shardfeed.compile_args(path, value, CPU),
    "distribute batch_size": lambda path, value: shardfeed.distribute(STRATEGY, path, "train", value),
    "distribute start_step": lambda path, value: shardfeed.distribute(STRATEGY, path, "train", 8, start_step=value),
    'input_fn params["batch_size"]': lambda path, value: shardfeed.input_fn(path, "train")({"batch_size": value}),
    "input_fn start_step": lambda path, value: shardfeed.input_fn(path, "train", start_step=value)({"batch_size": 8}),
    "steps_per_epoch batch_size": lambda path, value: shardfeed.info(path).steps_per_epoch("train", value),
    "benchmark batch_size": lambda path, value: benchmark_reader(
        str(path), "train", value, reader="arrays", seconds=1, step_ms=None
    ),
}


@pytest.mark.parametrize(
    "value",
    [10**19, 10**400, 10**5000, -(10**19), 1.5, "many", True, np.array([3])],
    ids=["10**19", "10**400", "10**5000", "-10**19", "1.5", "many", "True", "array"],
)
@pytest.mark.parametrize("name", CALLS)
def test_what_cannot_be_is_refused(dataset: Path, name: str, value: Any) -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        CALLS[name](dataset, value)

    named = name.partition(" ")[2]
    assert str(found.value).startswith((f"{named}=", f"{named.partition('[')[0]}=(")) and "expected" in str(found.value)
    assert len(str(found.value)) < 200


SEEDS = [2**64 - 1, 2**64, 2**63, 10**19, -(10**19), -1, np.uint64(2**63), np.int64(-5)]


@pytest.mark.parametrize("seed", SEEDS, ids=repr)
def test_a_seed_may_be_any_integer_and_counts_by_its_low_64_bits(dataset: Path, seed: Any) -> None:
    same = int(seed) % 2**64

    (one, _), (other, _) = (
        next(iter(shardfeed.load(dataset, "train", 8, seed=number, crop="random_resized"))) for number in (seed, same)
    )
    (first, _), (second, _) = (
        next(iter(shardfeed.array_batches(dataset, "train", 8, seed=number))) for number in (seed, same)
    )
    assert np.array_equal(one, other) and np.array_equal(first, second)


@pytest.mark.parametrize("seed", [1.5, "1", None, True, np.array([1])], ids=repr)
@pytest.mark.parametrize("read", [shardfeed.load, shardfeed.array_batches], ids=["load", "array_batches"])
def test_a_seed_that_is_no_integer_is_refused(dataset: Path, read: Any, seed: Any) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^seed=.*: expected an integer, found "):
        read(dataset, "train", 8, seed=seed)
