"""Sizes, crops, labels and columns of ``array_batches``, against those of ``load``."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.resizing import cut_and_resize
from shardfeed.sampling import boxes, order
from shardfeed.tfdata import crops
from tests.kit.datasets import Written, write_dataset
from tests.reader.damage import place, rewrite

# Windows of one record: inside a larger one, each reader has an order of its own.
ONE = {"shuffle_buffer": 1}
RANDOM: dict[str, Any] = {"image_size": 20, "crop": "random_resized", "seed": 5, "host": (1, 2), "start_step": 3}


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
    ("image_format", "channels", "size", "options"),
    [
        ("png", 1, None, {"image_size": (10, 45)}),
        ("jpeg", 3, (33, 40), {"image_size": 24, "crop": "center"}),
        ("raw", 3, None, RANDOM),
    ],
    ids=lambda one: str(one.get("crop") if isinstance(one, dict) else one),
)
def test_images_are_cut_and_resized_as_load_does_it_to_one_level(
    tmp_path: Path, image_format: str, channels: int, size: tuple[int, int] | None, options: dict[str, Any]
) -> None:
    ordered(tmp_path, image_format=image_format, channels=channels, size=size, splits={"train": 9})

    found, expected = (
        batches(reader, tmp_path, "train", 4, **ONE, **options) for reader in (shardfeed.array_batches, shardfeed.load)
    )

    assert_alike(found, expected)


def test_a_crop_that_has_the_size_already_is_that_of_load_to_the_bit(tmp_path: Path) -> None:
    ordered(tmp_path, size=(32, 64), splits={"validation": 4})

    found, expected = (
        batches(reader, tmp_path, "validation", 4, image_size=28, crop="center")
        for reader in (shardfeed.array_batches, shardfeed.load)
    )

    assert_alike(found, expected, levels=0)


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


def test_a_crop_does_not_depend_on_tasks_and_batches(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=(33, 40), splits={"train": 200})
    options: dict[str, Any] = {"epochs": 1, "crop": "random_resized"}

    whole, parts = (
        np.concatenate([images for images, _ in shardfeed.array_batches(tmp_path, "train", size, **options)])
        for size in (200, 8)
    )

    assert np.array_equal(whole, parts)


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize(("label", "host"), [("onehot", None), ("int", (19, 20))], ids=str)
def test_evaluation_has_the_columns_weights_and_padding_of_load(tmp_path: Path, label: str, host: Any) -> None:
    write_dataset(tmp_path, size=None)

    found, expected = (
        batches(reader, tmp_path, "validation", 20, label=label, host=host, image_size=(8, 12))
        for reader in (shardfeed.array_batches, shardfeed.load)
    )

    assert_alike(found, expected)


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
def test_wrong_values_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_dataset(tmp_path)

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.array_batches(tmp_path, "train", 8, **options)

    assert str(found.value) == message


def test_an_image_of_another_size_than_its_record_says_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path, size=None)
    rewrite(tmp_path, lambda row: {**row, "size": [7, 7]})

    with pytest.raises(shardfeed.DatasetError, match=f"{place(tmp_path)}: image: expected a jpeg image of 7 x 7 x 3, "):
        list(shardfeed.array_batches(tmp_path, "train", 37, image_size=4, epochs=1))
