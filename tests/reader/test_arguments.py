"""Arguments of the trainer's functions that cannot be: the error names the argument and what is
expected.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.accelerator.detect import Accelerator
from shardfeed.arguments import byte_count, choice, integer
from tests.kit.datasets import write_dataset
from tests.reader.streams import READERS, by_reader

FEWER = "Give a start_step below 4, or more epochs."
BYTES = "expected bytes as a positive int, or a text such as '64MB', '64MiB' or '1.5GB'."
CPU = Accelerator("cpu", 1, "tensorflow", "", None)
STRATEGY = tf.distribute.get_strategy()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset")).path


def refusal(call: Callable[..., object], *arguments: object, **options: object) -> str:
    with pytest.raises(shardfeed.UsageError) as found:
        call(*arguments, **options)
    return str(found.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "n=0: expected an integer of at least 1."),
        (-(10**19), f"n=-{10**19}: expected an integer of at least 1."),
        (1 << 31, "n=2147483648: expected an integer of at most 2147483647."),
        (10**99, f"n=1{'0' * 38}…: expected an integer of at most 2147483647."),
        (10**5000, "n=(int with too many digits): expected an integer of at most 2147483647."),
        (8.0, "n=8.0: expected an integer, found float."),
        ("8", "n='8': expected an integer, found str."),
        (True, "n=True: expected an integer, found bool."),
        (None, "n=None: expected an integer, found NoneType."),
        (np.array([8]), "n=array([8]): expected an integer, found ndarray."),
    ],
    ids=["0", "-10**19", "2**31", "10**99", "10**5000", "8.0", "8", "True", "None", "array"],
)
def test_what_is_no_integer_in_its_range_is_refused(value: object, message: str) -> None:
    found = refusal(integer, "n", value, least=1)

    assert found.startswith(message) and len(found) < 200


BOTH = ("batch_size", "epochs", "start_step", "seed", "shuffle_buffer")


def call(reader: Callable[..., object], name: str) -> Callable[[Path, Any], object]:
    return lambda path, value: reader(path, "train", **{"batch_size": 8, name: value})


CALLS: dict[str, Callable[[Path, Any], object]] = {
    **{f"load {name}": call(shardfeed.load, name) for name in (*BOTH, "image_size")},
    **{f"array_batches {name}": call(shardfeed.array_batches, name) for name in (*BOTH, "threads")},
    "load host[0]": lambda path, value: shardfeed.load(path, "train", 8, host=(value, 2)),
    "load host[1]": lambda path, value: shardfeed.load(path, "train", 8, host=(0, value)),
    "load image_size[1]": lambda path, value: shardfeed.load(path, "train", 8, image_size=(8, value)),
    "fit_args batch_size": lambda path, value: shardfeed.fit_args(path, value, CPU),
    "compile_args batch_size": lambda path, value: shardfeed.compile_args(path, value, CPU),
    "distribute batch_size": lambda path, value: shardfeed.distribute(STRATEGY, path, "train", value),
    'input_fn params["batch_size"]': lambda path, value: shardfeed.input_fn(path, "train")({"batch_size": value}),
    "steps_per_epoch batch_size": lambda path, value: shardfeed.info(path).steps_per_epoch("train", value),
    "evaluation_steps batch_size": lambda path, value: shardfeed.info(path).evaluation_steps("train", value),
    "benchmark image_size": lambda path, value: shardfeed.benchmark([], path, image_size=value),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_integer_of_a_public_function_is_checked_by_name(folder: Path, name: str) -> None:
    for value in (1.5, True, *([10**19] if "seed" not in name else [])):
        found = refusal(CALLS[name], folder, value)

        named = name.partition(" ")[2]
        assert found.startswith((f"{named}=", f"{named.partition('[')[0]}=(")) and "expected" in found


SEEDS = [2**64 - 1, -(10**19), np.uint64(2**63), np.int64(-5)]


@by_reader("seed", SEEDS, load=[1])
def test_a_seed_may_be_any_integer_and_counts_by_its_low_64_bits(folder: Path, reader: Any, seed: Any) -> None:
    (one, _), (same, _) = (next(iter(reader(folder, "train", 8, seed=each))) for each in (seed, int(seed) % 2**64))

    assert np.array_equal(one, same)


def test_numpy_integers_are_integers() -> None:
    assert [integer("batch_size", kind(5), least=1) for kind in (np.int64, np.uint8)] == [5, 5]


@READERS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"epochs": 2, "batch_size": 75},
            "batch_size=75: 2 × 37 records of train are less than one batch. Use a smaller batch_size or more epochs.",
        ),
        ({"start_step": -1}, "start_step=-1: expected an integer of at least 0."),
        ({"start_step": 4, "epochs": 1}, f"start_step=4: epochs=1 are 4 steps, numbered from 0. {FEWER}"),
        (
            {"epochs": 1, "training": False},
            "epochs=1: evaluation is one pass over train. Leave epochs out, or pass training=True.",
        ),
        (
            {"start_step": 1, "training": False},
            "start_step=1: evaluation is one pass over train. Leave start_step out, or pass training=True.",
        ),
        ({"training": 1}, "training=1: expected True, False or None."),
        ({"eval_remainder": "drop"}, "eval_remainder='drop': expected 'pad' or 'partial'."),
        ({"shuffle_buffer": "many"}, f"shuffle_buffer='many': {BYTES}"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_both_readers_refuse(folder: Path, reader: Any, options: dict[str, Any], message: str) -> None:
    assert refusal(reader, folder, "train", **{"batch_size": 8, **options}) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"as_dict": "no"}, "as_dict='no': expected True or False."),
        ({"image_size": 0}, "image_size=0: expected an integer of at least 1."),
        ({"image_size": 1 << 16}, "image_size=65536: expected an integer of at most 65535."),
        ({"image_size": (8, 1 << 16)}, "image_size[1]=65536: expected an integer of at most 65535."),
        ({"image_size": (8, 8, 3)}, "image_size=(8, 8, 3): expected one integer or a pair (height, width)."),
        ({"crop": "middle"}, "crop='middle': expected 'center' or 'random_resized'."),
        (
            {"crop": "random_resized", "training": False},
            "crop='random_resized': evaluation is not random. Use crop='center', or pass training=True.",
        ),
        ({"label": "text"}, "label='text': expected 'int' or 'onehot'."),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_load_refuses(folder: Path, options: dict[str, Any], message: str) -> None:
    assert refusal(shardfeed.load, folder, "train", **{"batch_size": 8, **options}) == message


@pytest.mark.parametrize(("threads", "most"), [(0, "least 1"), (1025, "most 1024")])
def test_array_batches_refuses_threads(folder: Path, threads: int, most: str) -> None:
    message = f"threads={threads}: expected an integer of at {most}."

    assert refusal(shardfeed.array_batches, folder, "train", 8, threads=threads) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (7, 7), ("7", 7), ("7B", 7), ("64MB", 64_000_000), ("64 mb", 64_000_000), ("1GB", 10**9),
        ("1.5GB", 1_500_000_000), ("1TB", 10**12), ("0.5 KiB", 512), ("1tib", 1 << 40),
        ("2KB", 2000), ("1KiB", 1024), ("64MiB", 64 << 20), (4 << 30, 4 << 30),
    ],
    ids=str,
)  # fmt: skip
def test_bytes_are_spelled_as_people_do(text: int | str, expected: int) -> None:
    assert byte_count("shuffle_buffer", text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "MB", "-1MB", "1.5", "1.5B", "1.MB", ".5MB", "0.0001KB", "1PB", "1I", "1 0MB", "١MB", "1" * 5000 + "MB", 0,
     "9999999TB"],
    ids=lambda text: repr(text)[:12],
)  # fmt: skip
def test_other_spellings_are_refused(text: str) -> None:
    assert refusal(byte_count, "shuffle_buffer", text).startswith("shuffle_buffer=")


def test_what_only_equals_a_choice_is_refused() -> None:
    assert refusal(choice, "eval_remainder", np.array(["pad"]), ("pad", "partial")) == (
        "eval_remainder=array(['pad'], dtype='<U3'): expected 'pad' or 'partial'."
    )
