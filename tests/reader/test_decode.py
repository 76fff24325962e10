"""Pixels of each image format."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import shardfeed
from tests.kit.datasets import Record, write_dataset
from tests.reader.streams import pixels_of


def pillow(record: Record, image_format: str) -> np.ndarray:
    """The stored pixels, decoded by Pillow."""
    height, width, channels = record.pixels.shape
    if image_format == "raw":
        image = Image.frombytes("L" if channels == 1 else "RGB", (width, height), record.image)
    else:
        image = Image.open(io.BytesIO(record.image)).convert("L" if channels == 1 else "RGB")
    return np.asarray(image).reshape(record.pixels.shape)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("image_format", ["jpeg", "png", "raw", "webp"])
def test_pixels_are_those_that_pillow_decodes(tmp_path: Path, image_format: str, channels: int) -> None:
    written = write_dataset(tmp_path, image_format=image_format, channels=channels)

    found = pixels_of(shardfeed.load(tmp_path, "validation", 5))

    expected = np.stack([pillow(record, image_format) for record in written.records["validation"]])
    assert found.dtype == np.uint8 and np.array_equal(found, expected)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("image_format", ["png", "raw"])
def test_lossless_formats_give_the_pixels_that_were_drawn(tmp_path: Path, image_format: str, channels: int) -> None:
    written = write_dataset(tmp_path, image_format=image_format, channels=channels)

    found = pixels_of(shardfeed.load(tmp_path, "validation", 5))

    assert np.array_equal(found, np.stack([record.pixels for record in written.records["validation"]]))


def test_a_gray_jpeg_in_a_colour_dataset_gets_three_equal_channels(tmp_path: Path) -> None:
    gray = write_dataset(tmp_path / "gray", image_format="jpeg", channels=1)
    data = gray.manifest.to_json().replace(b'"channels":1', b'"channels":3')
    data = data.replace(b"[127.5]", b"[127.5,127.5,127.5]").replace(b"[64.25]", b"[64.25,64.25,64.25]")
    (gray.path / "manifest.json").write_bytes(data)

    found = pixels_of(shardfeed.load(gray.path, "validation", 5))

    one = np.stack([pillow(record, "jpeg") for record in gray.records["validation"]])
    assert np.array_equal(found, np.repeat(one, 3, axis=3))


def test_a_colour_webp_in_a_gray_dataset_becomes_gray_as_pillow_does_it(tmp_path: Path) -> None:
    colour = write_dataset(tmp_path, image_format="webp")
    data = colour.manifest.to_json().replace(b'"channels":3', b'"channels":1')
    data = data.replace(b"[127.5,127.5,127.5]", b"[127.5]").replace(b"[64.25,64.25,64.25]", b"[64.25]")
    (tmp_path / "manifest.json").write_bytes(data)

    found = pixels_of(shardfeed.load(tmp_path, "validation", 5))

    images = [Image.open(io.BytesIO(record.image)).convert("L") for record in colour.records["validation"]]
    assert np.array_equal(found, np.stack([np.asarray(image)[..., None] for image in images]))


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp", "raw"])
def test_an_image_of_another_size_than_the_manifest_says_stops_the_stream(tmp_path: Path, image_format: str) -> None:
    written = write_dataset(tmp_path, image_format=image_format)
    data = written.manifest.to_json().replace(b'"height":8', b'"height":9')
    (tmp_path / "manifest.json").write_bytes(data)

    with pytest.raises(tf.errors.InvalidArgumentError):
        list(shardfeed.load(tmp_path, "validation", 5))


def test_the_largest_label_arrives_as_int32(tmp_path: Path) -> None:
    classes = tuple(f"class{i:03}" for i in range(300))
    written = write_dataset(tmp_path, splits={"validation": 300}, size=(2, 2), classes=classes)

    labels = np.concatenate([labels for _, labels, _ in shardfeed.load(tmp_path, "validation", 100)])

    assert labels.dtype == np.int32
    assert labels.tolist() == [record.label for record in written.records["validation"]] == list(range(300))
