"""Pixels of each image format, by both readers: those of Pillow, bit for bit."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import shardfeed
from shardfeed.decoding import image_decoder
from tests.kit.datasets import Pixels, Record, encode, write_dataset
from tests.reader.streams import READERS, by_reader, pixels_of

PHOTOS = sorted(Path(__file__).parents[2].glob("examples/sample_photos/*/*.jpg"))[::20]


def pillow(record: Record, image_format: str, mode: str) -> Pixels:
    """The stored pixels, decoded by Pillow."""
    if image_format == "raw":
        return record.pixels
    pixels = np.asarray(Image.open(io.BytesIO(record.image)).convert(mode))
    return pixels[..., None] if mode == "L" else pixels


# load hands the channels to TensorFlow, but makes WebP gray itself
@by_reader(
    "image_format,channels",
    [(image_format, channels) for image_format in ("jpeg", "png", "raw", "webp") for channels in (1, 3)],
    load=[0, 1, 2, 6, 7],
)
def test_pixels_are_those_that_pillow_decodes(tmp_path: Path, reader: Any, image_format: str, channels: int) -> None:
    written = write_dataset(tmp_path, image_format=image_format, channels=channels, size=(33, 47))

    found = np.concatenate([np.asarray(x) for x, *_ in reader(tmp_path, "validation", 5)])

    mode = "L" if channels == 1 else "RGB"
    expected = np.stack([pillow(record, image_format, mode) for record in written.records["validation"]])
    assert found.dtype == np.uint8 and np.array_equal(found, expected)


@pytest.mark.parametrize("subsampling", [0, 1, 2], ids=["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("quality", [50, 95], ids=str)
def test_real_photos_decode_to_tensorflows_pixels(quality: int, subsampling: int) -> None:
    for photo in PHOTOS:
        out = io.BytesIO()
        with Image.open(photo) as picture:
            picture.convert("RGB").resize((225, 223)).save(out, "JPEG", quality=quality, subsampling=subsampling)
        pixels = np.zeros((223, 225, 3), np.uint8)
        image_decoder("jpeg")(out.getvalue(), pixels.shape, pixels)

        assert np.array_equal(pixels, tf.io.decode_jpeg(out.getvalue(), dct_method="INTEGER_ACCURATE").numpy())


@pytest.mark.parametrize(("image_format", "channels", "other"), [("jpeg", 1, 3), ("webp", 3, 1)])
def test_images_of_other_channels_than_the_manifests_are_converted_as_pillow_does(
    tmp_path: Path, image_format: str, channels: int, other: int
) -> None:
    written = write_dataset(tmp_path, image_format=image_format, channels=channels)
    data = written.manifest.to_json().decode().replace(f'"channels":{channels}', f'"channels":{other}')
    for value in ("127.5", "64.25"):
        data = data.replace(f"[{','.join([value] * channels)}]", f"[{','.join([value] * other)}]")
    (tmp_path / "manifest.json").write_text(data)

    found = pixels_of(shardfeed.load(tmp_path, "validation", 5))

    mode = "L" if other == 1 else "RGB"
    expected = np.stack([pillow(record, image_format, mode) for record in written.records["validation"]])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("image_format", ["jpeg", "raw"])
def test_an_image_of_another_size_than_the_manifest_says_stops_the_stream(tmp_path: Path, image_format: str) -> None:
    written = write_dataset(tmp_path, image_format=image_format)
    data = written.manifest.to_json().replace(b'"height":8', b'"height":9')
    (tmp_path / "manifest.json").write_bytes(data)

    with pytest.raises(tf.errors.InvalidArgumentError):
        list(shardfeed.load(tmp_path, "validation", 5))


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp"])
@pytest.mark.parametrize("shape", [(8, 11), (9, 12), (7, 12), (8, 13)], ids=str)
def test_arrays_refuse_an_image_of_another_size(image_format: str, shape: tuple[int, int]) -> None:
    data = encode(np.full((*shape, 3), 9, np.uint8), image_format)

    with pytest.raises(ValueError, match=rf"image: expected an? {image_format} image of 8 x 12 x 3"):
        image_decoder(image_format)(data, (8, 12, 3), np.zeros((8, 12, 3), np.uint8))


@pytest.mark.parametrize("size", [0, 287, 289])
def test_arrays_refuse_raw_pixels_of_another_number(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^image: expected 8 x 12 x 3 bytes of pixels, found {size} bytes$"):
        image_decoder("raw")(bytes(size), (8, 12, 3), np.zeros((8, 12, 3), np.uint8))


@READERS
def test_the_largest_label_arrives_as_int32(tmp_path: Path, reader: Any) -> None:
    classes = tuple(f"class{i:03}" for i in range(300))
    write_dataset(tmp_path, splits={"validation": 300}, size=(2, 2), classes=classes, image_format="raw")

    labels = np.concatenate([labels for _, labels, _ in reader(tmp_path, "validation", 100)])

    assert labels.dtype == np.int32 and labels.tolist() == list(range(300))


def test_array_batches_load_neither_tensorflow_nor_pillow(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    code = (
        "import sys, shardfeed\n"
        "for x, y in shardfeed.array_batches(sys.argv[1], 'train', 8, epochs=2): pass\n"
        "print([name for name in ('tensorflow', 'keras', 'PIL', 'apache_beam', 'jax') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
