"""The decoders of NumPy batches: all formats, and the same pixels as TensorFlow's, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.arrays.decode import image_decoder
from shardfeed.format.manifest import ImageInfo
from tests.kit.datasets import encode, write_dataset

PHOTOS = sorted(Path(__file__).parents[2].glob("examples/sample_photos/*/*.jpg"))[::20]


@pytest.mark.parametrize("channels", [1, 3], ids=["gray", "rgb"])
@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp", "raw"])
def test_batches_hold_the_pixels_that_load_gives(tmp_path: Path, image_format: str, channels: int) -> None:
    write_dataset(tmp_path, image_format=image_format, channels=channels, size=(33, 47), splits={"test": 9})
    (ours,), (theirs,) = shardfeed.array_batches(tmp_path, "test", 9), shardfeed.load(tmp_path, "test", 9)

    assert np.array_equal(ours[0], theirs[0].numpy())
    assert np.array_equal(ours[1], theirs[1].numpy()) and np.array_equal(ours[2], theirs[2].numpy())


@pytest.mark.parametrize("subsampling", [0, 1, 2], ids=["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("quality", [50, 95], ids=str)
def test_real_photos_decode_to_tensorflows_pixels(tmp_path: Path, quality: int, subsampling: int) -> None:
    import io

    import tensorflow as tf

    for photo in PHOTOS:
        out = io.BytesIO()
        with Image.open(photo) as picture:
            picture.convert("RGB").resize((225, 223)).save(out, "JPEG", quality=quality, subsampling=subsampling)
        pixels = np.zeros((223, 225, 3), np.uint8)
        image_decoder(_info("jpeg", 223, 225))(out.getvalue(), pixels)

        assert np.array_equal(pixels, tf.io.decode_jpeg(out.getvalue(), dct_method="INTEGER_ACCURATE").numpy())


def _info(image_format: str, height: int, width: int) -> ImageInfo:
    return ImageInfo(height, width, 3, image_format, (0.0,) * 3, (0.0,) * 3)


@pytest.mark.parametrize("image_format", ["png", "webp"])
def test_formats_that_need_pillow_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, image_format: str) -> None:
    write_dataset(tmp_path, image_format=image_format)
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.array_batches(tmp_path, "train", 8)

    assert str(found.value) == (
        f"{image_format} images are decoded with Pillow, which is not installed. Install it with: pip install Pillow"
    )


@pytest.mark.parametrize("image_format", ["jpeg", "raw"])
def test_neither_tensorflow_nor_pillow_is_loaded(tmp_path: Path, image_format: str) -> None:
    write_dataset(tmp_path, image_format=image_format)
    code = (
        "import sys, shardfeed\n"
        "for x, y in shardfeed.array_batches(sys.argv[1], 'train', 8, epochs=2): pass\n"
        "print([name for name in ('tensorflow', 'keras', 'PIL', 'apache_beam', 'jax') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp"])
@pytest.mark.parametrize("shape", [(8, 11), (9, 12), (7, 12), (8, 13)], ids=str)
def test_an_image_of_another_size_is_refused(image_format: str, shape: tuple[int, int]) -> None:
    data = encode(np.full((*shape, 3), 9, np.uint8), image_format)

    with pytest.raises(ValueError, match=rf"image: expected an? {image_format} image of 8 x 12 x 3"):
        image_decoder(_info(image_format, 8, 12))(data, np.zeros((8, 12, 3), np.uint8))


@pytest.mark.parametrize("size", [0, 287, 289])
def test_raw_pixels_of_another_number_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^image: expected 8 x 12 x 3 bytes of pixels, found {size} bytes$"):
        image_decoder(_info("raw", 8, 12))(bytes(size), np.zeros((8, 12, 3), np.uint8))
