"""Arguments of ``load`` that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.arguments import byte_count, choice
from tests.kit.datasets import write_dataset

FEWER = "Give a start_step below 4, or more epochs."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset")).path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: expected an integer of at least 1."),
        ({"batch_size": -8}, "batch_size=-8: expected an integer of at least 1."),
        ({"batch_size": 1 << 31}, "batch_size=2147483648: expected an integer of at most 2147483647."),
        ({"start_step": 10**19}, f"start_step={10**19}: expected an integer of at most 2147483647."),
        ({"start_step": 10**99}, f"start_step=1{'0' * 38}…: expected an integer of at most 2147483647."),
        ({"start_step": -(10**19)}, f"start_step=-{10**19}: expected an integer of at least 0."),
        ({"batch_size": np.array([8])}, "batch_size=array([8]): expected an integer, found ndarray."),
        ({"batch_size": 8.0}, "batch_size=8.0: expected an integer, found float."),
        ({"batch_size": "8"}, "batch_size='8': expected an integer, found str."),
        ({"batch_size": True}, "batch_size=True: expected an integer, found bool."),
        ({"batch_size": None}, "batch_size=None: expected an integer, found NoneType."),
        ({"epochs": 0}, "epochs=0: expected an integer of at least 1."),
        ({"epochs": 1.5}, "epochs=1.5: expected an integer, found float."),
        (
            {"epochs": 2, "batch_size": 75},
            "batch_size=75: 2 × 37 records of train are less than one batch. Use a smaller batch_size or more epochs.",
        ),
        (
            {"epochs": 1, "training": False},
            "epochs=1: evaluation is one pass over train. Leave epochs out, or pass training=True.",
        ),
        ({"seed": 0.5}, "seed=0.5: expected an integer, found float."),
        ({"training": "yes"}, "training='yes': expected True, False or None."),
        ({"training": 1}, "training=1: expected True, False or None."),
        ({"as_dict": "no"}, "as_dict='no': expected True or False."),
        ({"cache": ""}, "cache='': expected None, 'decoded' or a local folder for copies of the shards."),
        ({"cache": 3}, "cache=3: expected None, 'decoded' or a local folder for copies of the shards."),
        (
            {"shuffle_buffer": "many"},
            "shuffle_buffer='many': expected bytes as a positive int, or a text such as '64MB', '64MiB' or '1.5GB'.",
        ),
        (
            {"shuffle_buffer": "0MB"},
            "shuffle_buffer='0MB': expected bytes as a positive int, or a text such as '64MB', '64MiB' or '1.5GB'.",
        ),
        (
            {"shuffle_buffer": "9999999TB"},
            "shuffle_buffer=9999999000000000000: expected an integer of at most 1152921504606846976.",
        ),
        ({"shuffle_buffer": 0}, "shuffle_buffer=0: expected an integer of at least 1."),
        ({"start_step": -1}, "start_step=-1: expected an integer of at least 0."),
        ({"start_step": 4, "epochs": 1}, f"start_step=4: epochs=1 are 4 steps, numbered from 0. {FEWER}"),
        (
            {"start_step": 1, "training": False},
            "start_step=1: evaluation is one pass over train. Leave start_step out, or pass training=True.",
        ),
        ({"image_size": 0}, "image_size=0: expected an integer of at least 1."),
        ({"image_size": 1 << 16}, "image_size=65536: expected an integer of at most 65535."),
        ({"image_size": (8, 1 << 16)}, "image_size[1]=65536: expected an integer of at most 65535."),
        ({"image_size": (8, 0)}, "image_size[1]=0: expected an integer of at least 1."),
        ({"image_size": (8, 8, 3)}, "image_size=(8, 8, 3): expected one integer or a pair (height, width)."),
        ({"crop": "middle"}, "crop='middle': expected 'center' or 'random_resized'."),
        (
            {"crop": "random_resized", "training": False},
            "crop='random_resized': evaluation is not random. Use crop='center', or pass training=True.",
        ),
        ({"label": "text"}, "label='text': expected 'int' or 'onehot'."),
        ({"eval_remainder": "drop"}, "eval_remainder='drop': expected 'pad' or 'partial'."),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_the_error_names_the_argument(folder: Path, options: dict[str, Any], message: str) -> None:
    options = {"batch_size": 8, **options}

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.load(folder, "train", **options)

    assert str(found.value) == message


@pytest.mark.parametrize("batch_size", [np.int64(5), np.uint8(5)], ids=repr)
def test_numpy_integers_are_integers(folder: Path, batch_size: Any) -> None:
    assert len(shardfeed.load(folder, "validation", batch_size)) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (7, 7), ("7", 7), ("7B", 7), ("64MB", 64_000_000), ("64 mb", 64_000_000), ("1GB", 10**9),
        ("1.5GB", 1_500_000_000), ("1TB", 10**12), ("0.5 KiB", 512), ("1tib", 1 << 40),
        ("2KB", 2000), ("1KiB", 1024), ("64MiB", 64 << 20), ("1GiB", 1 << 30),
    ],
    ids=str,
)  # fmt: skip
def test_bytes_are_spelled_as_people_do(text: int | str, expected: int) -> None:
    assert byte_count("shuffle_buffer", text) == expected


def test_bytes_may_be_more_than_a_count() -> None:
    assert byte_count("shuffle_buffer", 4 << 30) == byte_count("shuffle_buffer", "4GiB")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MB",
        "-1MB",
        "1.5",
        "1.5B",
        "1.MB",
        ".5MB",
        "0.0001KB",
        "1PB",
        "1I",
        "1 0MB",
        "١MB",
        "1" * 5000,
        "1" * 5000 + "MB",
    ],
    ids=lambda text: repr(text)[:12],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^shuffle_buffer="):
        byte_count("shuffle_buffer", text)


def test_what_only_equals_a_choice_is_refused() -> None:
    with pytest.raises(shardfeed.UsageError) as found:
        choice("eval_remainder", np.array(["pad"]), ("pad", "partial"))

    assert str(found.value) == "eval_remainder=array(['pad'], dtype='<U3'): expected 'pad' or 'partial'."
