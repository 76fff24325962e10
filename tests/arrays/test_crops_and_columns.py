"""Sizes, crops, labels and columns of ``array_batches``, against those of ``load``."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed import testing
from shardfeed.format.example import Value
from shardfeed.resizing import cut_and_resize
from shardfeed.sampling import boxes, order
from shardfeed.testing import assert_resumes
from shardfeed.tfdata import crops
from tests.kit.datasets import Written, write_dataset

# Windows of one record: inside a larger one, each reader has an order of its own.
ONE = {"shuffle_buffer": 1}
OPTIONS: list[dict[str, Any]] = [
    {"image_size": (10, 45)},
    {"image_size": 24, "crop": "center"},
    {"image_size": 20, "crop": "random_resized", "seed": 5, "host": (1, 2), "start_step": 3},
]


def ordered(path: Path, **options: Any) -> Written:
    """A dataset that both readers read in one order."""
    return write_dataset(path, block_records=1, **options)


def batches(reader: Any, path: Path, split: str, batch_size: int, count: int = 4, **options: Any) -> list[Any]:
    stream = reader(path, split, batch_size, as_dict=True, **options)
    return list(islice(stream.as_numpy_iterator() if isinstance(stream, tf.data.Dataset) else stream, count))


def assert_alike(found: list[Any], expected: list[Any], levels: int = 1) -> None:
    """Equal batches, but for the resizers' rounding."""
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        for name, values in one.items():
            assert (values.dtype, values.shape) == (other[name].dtype, other[name].shape)
            if name == "image":
                assert np.abs(values.astype(int) - other[name]).max() <= levels
            else:
                assert np.array_equal(values, other[name])


@pytest.mark.parametrize(
    ("image_format", "size", "options"),
    [
        ("jpeg", (33, 40), OPTIONS[0]), ("jpeg", None, OPTIONS[1]), ("jpeg", (33, 40), OPTIONS[2]),
        ("png", None, OPTIONS[0]), ("png", (33, 40), OPTIONS[1]), ("raw", (33, 40), OPTIONS[1]),
        ("raw", None, OPTIONS[2]), ("webp", (33, 40), OPTIONS[0]), ("webp", None, OPTIONS[2]),
    ],
    ids=lambda one: str(one.get("crop") if isinstance(one, dict) else one),
)  # fmt: skip
def test_images_are_cut_and_resized_as_load_does_it_to_one_level(
    tmp_path: Path, image_format: str, size: tuple[int, int] | None, options: dict[str, Any]
) -> None:
    ordered(tmp_path, image_format=image_format, size=size, splits={"train": 9})

    found, expected = (
        batches(reader, tmp_path, "train", 4, **ONE, **options) for reader in (shardfeed.array_batches, shardfeed.load)
    )

    assert_alike(found, expected)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_crop_that_has_the_size_already_is_that_of_load_to_the_bit(tmp_path: Path, channels: int) -> None:
    ordered(tmp_path, size=(32, 64), splits={"validation": 4}, channels=channels)

    found, expected = (
        batches(reader, tmp_path, "validation", 4, image_size=28, crop="center")
        for reader in (shardfeed.array_batches, shardfeed.load)
    )

    assert_alike(found, expected, levels=0)


def test_gray_images_are_resized(tmp_path: Path) -> None:
    ordered(tmp_path, size=(32, 64), splits={"validation": 4}, channels=1)

    found, expected = (
        batches(reader, tmp_path, "validation", 4, image_size=9) for reader in (shardfeed.array_batches, shardfeed.load)
    )

    assert_alike(found, expected)


def test_a_value_is_at_most_one_level_from_the_exact_one(tmp_path: Path) -> None:
    """Noise and edges, which are harder to resize than photos."""

    def weights(source: int, target: int) -> Any:
        scale = source / target
        centre = (np.arange(target)[:, None] + 0.5) * scale - 0.5
        triangle = np.maximum(0, 1 - np.abs(np.arange(source)[None, :] - centre) / max(scale, 1))
        return triangle / triangle.sum(axis=1, keepdims=True)

    random = np.random.default_rng(0)
    for _ in range(50):
        height, width, *shown = random.integers(1, 100, 4).tolist()
        pixels = random.choice([0, 9, 255], (height, width, 3)).astype(np.uint8)
        box = (height // 3, width // 4, -(-height // 2), -(-width // 2))
        part = pixels[box[0] :, box[1] :][: box[2], : box[3]].astype(float)
        exact = np.einsum("yh,hwc->ywc", weights(part.shape[0], shown[0]), part)
        exact = np.einsum("ywc,xw->yxc", exact, weights(part.shape[1], shown[1]))
        found = np.empty((*shown, 3), np.uint8)

        cut_and_resize(pixels, box, found)

        assert np.abs(found - exact).max() <= 1.01


def test_boxes_are_those_of_load_to_the_bit() -> None:
    random = np.random.default_rng(7)
    for number in range(8):
        sizes = random.integers(1, 40 if number % 2 else 3000, (20_000, 2))
        positions = random.integers(0, 1 << 40, 20_000)
        seed = order.crop_seed(number)

        found = boxes.random_boxes(sizes, positions, seed)

        assert np.array_equal(found, crops.random_boxes(tf.constant(sizes), tf.constant(positions), seed).numpy())
        assert np.array_equal(boxes.center_boxes(sizes), crops.center_boxes(tf.constant(sizes)).numpy())


@pytest.mark.parametrize("size", [(33, 40), None], ids=["one size", "varying sizes"])
def test_random_crops_resume_to_the_pixel(tmp_path: Path, size: tuple[int, int] | None) -> None:
    write_dataset(tmp_path, size=size)

    assert_resumes(
        lambda step: shardfeed.array_batches(
            tmp_path, "train", 9, start_step=step, image_size=12, crop="random_resized", threads=3
        ),
        steps=9,
    )


def test_a_crop_does_not_depend_on_tasks_and_batches(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=(33, 40), splits={"train": 200})
    options: dict[str, Any] = {"epochs": 1, "crop": "random_resized"}

    whole, parts = (
        np.concatenate([images for images, _ in shardfeed.array_batches(tmp_path, "train", size, **options)])
        for size in (200, 8)
    )

    assert np.array_equal(whole, parts)


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize("label", ["int", "onehot"])
@pytest.mark.parametrize("host", [None, (0, 20), (19, 20)], ids=str)
def test_evaluation_has_the_columns_weights_and_padding_of_load(tmp_path: Path, label: str, host: Any) -> None:
    write_dataset(tmp_path, size=None)

    found, expected = (
        batches(reader, tmp_path, "validation", 20, label=label, host=host, image_size=(8, 12))
        for reader in (shardfeed.array_batches, shardfeed.load)
    )

    assert_alike(found, expected)


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
def test_without_as_dict_a_batch_is_a_tuple_of_the_same_arrays(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    for split, names in (("train", ["image", "label"]), ("validation", ["image", "label", "weight"])):
        (named, *_) = batches(shardfeed.array_batches, tmp_path, split, 8, 1, label="onehot")

        plain = next(iter(shardfeed.array_batches(tmp_path, split, 8, label="onehot")))

        assert isinstance(plain, tuple) and len(plain) == len(names)
        assert all(np.array_equal(values, named[name]) for name, values in zip(names, plain, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"as_dict": "no"}, "as_dict='no': expected True or False."),
        ({"image_size": 0}, "image_size=0: expected an integer of at least 1."),
        ({"crop": "middle"}, "crop='middle': expected 'center' or 'random_resized'."),
        (
            {"crop": "random_resized", "training": False},
            "crop='random_resized': evaluation is not random. Use crop='center', or pass training=True.",
        ),
        ({"label": "text"}, "label='text': expected 'int' or 'onehot'."),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_values_are_refused_as_by_load(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_dataset(tmp_path)
    for reader in (shardfeed.array_batches, shardfeed.load):
        with pytest.raises(shardfeed.UsageError) as found:
            reader(tmp_path, "train", 8, **options)

        assert str(found.value) == message


def test_an_image_of_another_size_than_its_record_says_is_named(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "good", size=None, splits={"train": 3})
    columns: list[dict[str, Value]] = [
        {"image": one.image, "class": 0, "label": b"daisy", "size": [7, 7], "key": one.key}
        for one in written.records["train"]
    ]
    testing.write_dataset(
        tmp_path / "bad", {"train": columns}, image=written.manifest.image, classes=written.manifest.classes,
        fingerprint=written.manifest.fingerprint, config=written.manifest.config,
    )  # fmt: skip

    with pytest.raises(
        shardfeed.DatasetError, match=r"record \d at byte \d+, key train/.*: image: expected a jpeg image "
    ):
        next(iter(shardfeed.array_batches(tmp_path / "bad", "train", 3, image_size=4)))
