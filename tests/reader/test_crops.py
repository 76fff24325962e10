"""Crops and sizes, against a statement of them in NumPy and Pillow that shares no code with the
reader.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image

import shardfeed
from shardfeed.sampling import order
from shardfeed.tfdata import crops
from tests.kit.datasets import Pixels, Record, write_dataset
from tests.reader.streams import pixels_of

Floats = NDArray[np.float64]
MASK = (1 << 64) - 1


def decoded(record: Record, image_format: str) -> Pixels:
    if image_format == "raw":
        return record.pixels
    return np.asarray(Image.open(io.BytesIO(record.image)).convert("RGB"))


def resized(pixels: Pixels, height: int, width: int) -> Floats:
    """Triangles as wide as a source or target pixel, whichever is wider, around each target
    pixel's centre.
    """

    def weights(source: int, target: int) -> Floats:
        scale = source / target
        centre = (np.arange(target)[:, None] + 0.5) * scale - 0.5
        triangle = np.maximum(0, 1 - np.abs(np.arange(source)[None, :] - centre) / max(scale, 1))
        normal: Floats = triangle / triangle.sum(axis=1, keepdims=True)
        return normal

    down = weights(pixels.shape[0], height)
    across = weights(pixels.shape[1], width)
    scaled: Floats = np.einsum("yh,hwc,xw->yxc", down, pixels.astype(np.float64), across)
    return scaled


def assert_rounded(found: Pixels, exact: Floats) -> None:
    """Each pixel is its exact value rounded; float32 may decide a tie either way, and nothing
    more.
    """
    assert found.dtype == np.uint8 and found.shape == exact.shape
    assert np.abs(found - exact).max() <= 0.5 + 1e-4


def mix(value: int) -> int:
    value &= MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


GOLDEN = 0x9E3779B97F4A7C15


def random_box(height: int, width: int, seed: int, position: int) -> tuple[int, int, int, int]:
    """Top, left, height, width."""
    stream = mix(mix(mix(seed)) + GOLDEN)
    base = mix(stream + (position + 1) * GOLDEN)
    draw = [(mix(base + (number + 1) * GOLDEN) >> 11) / 2**53 for number in range(22)]
    for attempt in range(10):
        area = height * width * (0.08 + 0.92 * draw[attempt])
        ratio = math.exp(math.log(3 / 4) + math.log(16 / 9) * draw[10 + attempt])
        tall, wide = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 1 <= tall <= height and 1 <= wide <= width:
            return int(draw[20] * (height - tall + 1)), int(draw[21] * (width - wide + 1)), tall, wide
    tall, wide = min(height, max(1, round(width / 0.75))), min(width, max(1, round(height * 4 / 3)))
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def cut(pixels: Pixels, box: tuple[int, int, int, int]) -> Pixels:
    top, left, height, width = box
    return pixels[top : top + height, left : left + width]


@pytest.mark.parametrize(("image_format", "size"), [("jpeg", (32, 40)), ("raw", None)], ids=str)
def test_images_are_resized_whole_without_a_crop(
    tmp_path: Path, image_format: str, size: tuple[int, int] | None
) -> None:
    written = write_dataset(tmp_path, image_format=image_format, size=size, splits={"validation": 4})

    found = pixels_of(shardfeed.load(tmp_path, "validation", 4, image_size=(10, 45)))

    for image, record in zip(found, written.records["validation"], strict=True):
        assert_rounded(image, resized(decoded(record, image_format), 10, 45))


@pytest.mark.parametrize(("image_format", "size"), [("jpeg", (33, 40)), ("jpeg", None), ("png", (40, 32))], ids=str)
def test_the_central_square_is_seven_eighths_of_the_short_side(
    tmp_path: Path, image_format: str, size: tuple[int, int] | None
) -> None:
    written = write_dataset(tmp_path, image_format=image_format, size=size, splits={"validation": 4})

    found = pixels_of(shardfeed.load(tmp_path, "validation", 4, image_size=24, crop="center"))

    for image, record in zip(found, written.records["validation"], strict=True):
        pixels = decoded(record, image_format)
        height, width = pixels.shape[:2]
        side = math.floor(0.875 * min(height, width) + 0.5)
        box = ((height - side) // 2, (width - side) // 2, side, side)
        assert_rounded(image, resized(cut(pixels, box), 24, 24))


def test_a_central_square_that_has_the_size_already_is_not_resized(tmp_path: Path) -> None:
    written = write_dataset(tmp_path, size=(32, 64), splits={"validation": 4})

    found = pixels_of(shardfeed.load(tmp_path, "validation", 4, image_size=28, crop="center"))

    expected = [decoded(record, "jpeg")[2:30, 18:46] for record in written.records["validation"]]
    assert np.array_equal(found, np.stack(expected))


@pytest.mark.parametrize(
    ("image_format", "size", "cache"),
    [("jpeg", (33, 40), None), ("jpeg", None, "decoded"), ("raw", (33, 40), "decoded"), ("webp", None, None)],
    ids=str,
)
def test_random_crops_are_those_of_seed_and_position_in_the_order_of_all_hosts(
    tmp_path: Path, image_format: str, size: tuple[int, int] | None, cache: str | None
) -> None:
    # Images of one colour channel pattern cannot be told apart after a crop, so the order comes
    # from the keys.
    written = write_dataset(tmp_path, image_format=image_format, size=size, splits={"train": 9})
    by_key = {record.key: record for record in written.records["train"]}
    dataset = shardfeed.load(
        tmp_path, "train", 4, image_size=20, crop="random_resized", seed=5, host=(1, 2), as_dict=True, cache=cache
    )

    position = 1  # host 1 of 2 has every second one
    for batch in dataset.take(5).as_numpy_iterator():
        for image, key in zip(batch["image"], batch["key"], strict=True):
            pixels = decoded(by_key[key], image_format)
            height, width, _ = pixels.shape
            box = random_box(height, width, seed=5, position=position)
            assert_rounded(image, resized(cut(pixels, box), 20, 20))
            position += 2


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (300, 7), (7, 300), (200, 300), (1000, 1000)], ids=str)
def test_random_boxes_fit_in_images_of_any_shape(size: tuple[int, int]) -> None:
    positions = np.arange(500)
    seed = order.crop_seed(3)

    found = crops.random_boxes(tf.constant([size] * 500), tf.constant(positions), seed).numpy()

    assert [tuple(box) for box in found.tolist()] == [random_box(*size, 3, position) for position in range(500)]
    assert (found[:, :2] >= 0).all() and (found[:, 2:] >= 1).all() and (found[:, :2] + found[:, 2:] <= size).all()


def test_a_crop_alone_keeps_the_stored_size(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    plain, cropped = (shardfeed.load(tmp_path, "train", 8, crop=crop) for crop in (None, "random_resized"))

    assert cropped.element_spec == plain.element_spec
