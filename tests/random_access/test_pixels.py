"""Sizes and crops of ``records``, against ``load`` and against the definition of the boxes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import UsageError
from shardfeed.sampling.boxes import random_boxes
from shardfeed.sampling.order import mix_one, stream_seed
from tests.kit.datasets import Pixels, write_dataset


def images(path: Path, **options: Any) -> list[Pixels]:
    return [item["image"] for item in shardfeed.records(path, "train", **options)]


def loaded(path: Path, **options: Any) -> list[Pixels]:
    batches = shardfeed.load(path, "train", 37, training=False, **options)
    return list(next(iter(batches.as_numpy_iterator()))[0])


def differences(found: list[Pixels], expected: list[Pixels]) -> Pixels:
    assert [(one.dtype, one.shape) for one in found] == [(np.dtype(np.uint8), one.shape) for one in expected]
    assert len(found) == 37
    return np.abs(np.array(found).astype(np.int16) - np.array(expected).astype(np.int16)).astype(np.uint8)


@pytest.mark.parametrize(("image_format", "channels"), [("jpeg", 1), ("png", 1), ("raw", 3), ("webp", 3)])
def test_images_as_stored_are_those_of_load(tmp_path: Path, image_format: str, channels: int) -> None:
    write_dataset(tmp_path, image_format=image_format, channels=channels)
    expected = loaded(tmp_path)

    assert differences(images(tmp_path), expected).max() == 0
    assert differences(images(tmp_path, image_size=(8, 12)), expected).max() == 0


def test_images_of_varying_size_come_in_their_own(tmp_path: Path) -> None:
    made = write_dataset(tmp_path, image_format="png", size=None)

    found = images(tmp_path)

    assert len(found) == 37
    assert all(map(np.array_equal, found, [record.pixels for record in made.records["train"]]))


@pytest.mark.parametrize(
    ("image_format", "size", "options"),
    [
        ("jpeg", None, {"image_size": (30, 7)}),
        ("webp", (40, 56), {"image_size": 60, "crop": "center"}),
        ("png", (16, 24), {"crop": "center"}),  # to the stored size
    ],
    ids=str,
)
def test_resized_images_are_those_of_load_but_for_a_level(
    tmp_path: Path, options: dict[str, Any], image_format: str, size: Any
) -> None:
    write_dataset(tmp_path, image_format=image_format, size=size)

    assert differences(images(tmp_path, **options), loaded(tmp_path, **options)).max() <= 1


def test_a_random_crop_depends_on_seed_and_record_alone(tmp_path: Path) -> None:
    made = write_dataset(tmp_path, image_format="raw", size=(40, 56))

    def crops(seed: int) -> shardfeed.Records:
        return shardfeed.records(tmp_path, "train", image_size=12, crop="random_resized", seed=seed)

    whole = [item["image"] for item in crops(7)]
    assert all(np.array_equal(crops(7)[number]["image"], whole[number]) for number in (36, 0, 5))
    assert np.array_equal(crops(7)[30:3:-3][2]["image"], whole[24])
    assert not np.array_equal(np.array([item["image"] for item in crops(8)]), np.array(whole))
    boxes = random_boxes(np.tile([[40, 56]], (37, 1)), np.arange(37), mix_one(stream_seed(7)))
    for number, (top, left, height, width) in enumerate(boxes.tolist()):
        part = made.records["train"][number].pixels[top : top + height, left : left + width]
        assert abs(part.mean() - whole[number].mean()) < 1.5
    assert len({tuple(box) for box in boxes.tolist()}) == 37


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(UsageError) as found:
        shardfeed.records(path, options.pop("split", "train"), **options)
    return str(found.value)


def test_arguments_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = tmp_path
    write_dataset(path, size=None)

    assert refusal(path, split="test").startswith("split 'test' is not in the dataset at")
    known = "image, label, key, size"
    for columns in (["image", "width"], [], ["key", "key"], [["key"]]):
        assert refusal(path, columns=columns).startswith(f"columns={columns}: expected ")
        assert re.search(f"each once, of {known}|of {known}, each once", refusal(path, columns=columns))
    assert refusal(path, decode=1) == "decode=1: expected True or False."
    assert refusal(path, decode=False, image_size=8) == (
        "decode=False gives stored bytes: leave image_size and crop out, or decode."
    )
    assert refusal(path, decode=False, image_size=8, crop="center").startswith("decode=False gives stored bytes")
    assert refusal(path, image_size=0) == "image_size=0: expected an integer of at least 1."
    assert refusal(path, image_size=8, crop="middle") == "crop='middle': expected 'center' or 'random_resized'."
    assert refusal(path, crop="center") == (
        f"crop='center': the images of the dataset at {path} vary in size. Pass image_size= too, for example image_size=224."
    )
    assert refusal(path, image_size=8, crop="random_resized") == (
        "crop='random_resized' needs a seed, for example seed=1: a crop depends on it and on the record."
    )
    assert refusal(path, image_size=8, crop="random_resized", seed="1") == "seed='1': expected an integer, found str."
    assert refusal(path, seed=1) == "seed=1: only crop='random_resized' takes a seed. The loader shuffles."
