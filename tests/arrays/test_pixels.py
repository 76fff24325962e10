"""The decoders of NumPy batches: all formats, and the same pixels as TensorFlow's, bit for bit."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.array_decode import image_and_class, image_decoder
from shardfeed.example import decode_example, encode_example, encode_feature, join_features
from shardfeed.manifest import ImageInfo
from tests.datasets import encode, write_dataset

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


def test_a_photo_that_libjpeg_only_warns_of_is_read_as_tensorflow_reads_it() -> None:
    import tensorflow as tf

    data = PHOTOS[0].read_bytes()
    data = data[: len(data) // 2] + b"\xff\xd9"
    expected = tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE").numpy()
    pixels = np.zeros(expected.shape, np.uint8)

    image_decoder(_info("jpeg", *expected.shape[:2]))(data, pixels)

    assert np.array_equal(pixels, expected)


def _info(image_format: str, height: int, width: int) -> ImageInfo:
    return ImageInfo(height, width, 3, image_format, (0.0,) * 3, (0.0,) * 3)


def test_pillow_takes_the_place_of_simplejpeg_with_a_warning_and_the_same_pixels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_dataset(tmp_path, size=(33, 47), splits={"test": 9})
    (fast,) = shardfeed.array_batches(tmp_path, "test", 9)
    monkeypatch.setitem(sys.modules, "simplejpeg", None)

    with pytest.warns(UserWarning, match="simplejpeg is not installed.*pip install 'shardfeed") as warned:
        (slow,) = shardfeed.array_batches(tmp_path, "test", 9)

    assert warned[0].filename == __file__
    assert np.array_equal(fast[0], slow[0])


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


def test_no_warning_is_given_where_simplejpeg_is_installed(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shardfeed.array_batches(tmp_path, "train", 8)


@pytest.mark.parametrize(
    "columns",
    [
        {"image": b"\xff" * 300, "class": 0},
        {"image": b"", "class": 2**40},
        {"image": b"i" * 20_000, "class": 300, "caption": b"\n\x05image\x12", "a": [1.5, 2.5], "zoo": [b"x", b"yy"]},
        {"image": b"i" * 127, "class": -1},
    ],
    ids=["plain", "empty image, large class", "columns around them", "negative class"],
)
def test_the_quick_parser_agrees_with_the_careful_one(columns: dict[str, bytes | int]) -> None:
    data = encode_example(columns)
    careful = decode_example(data)

    assert image_and_class(data) == (careful["image"][0], careful["class"][0])


ONE = (encode_feature("class", 5), encode_feature("image", b"pixels"), encode_feature("key", b"k"))


@pytest.mark.parametrize(
    "again", [encode_feature("class", 9), encode_feature("image", b"others")], ids=["class", "image"]
)
def test_a_column_that_comes_again_wins_as_in_every_parser(again: bytes) -> None:
    data = join_features((*ONE, again))
    careful = decode_example(data)

    assert image_and_class(data) == (careful["image"][0], careful["class"][0])
    assert image_and_class(data) != (b"pixels", 5)


@pytest.mark.parametrize("place", range(2, 14 + 9))
def test_a_wrong_length_or_tag_anywhere_before_the_image_is_refused_or_harmless(place: int) -> None:
    whole = join_features(ONE)
    for change in range(1, 256):
        data = bytearray(whole)
        data[place] ^= change
        try:
            careful = decode_example(bytes(data))
            (image,), (number,) = careful["image"], careful["class"]
            assert isinstance(image, bytes) and isinstance(number, int)
        except (ValueError, KeyError, IndexError, AssertionError):
            with contextlib.suppress(ValueError):
                assert image_and_class(bytes(data)) == (b"pixels", 5)  # only a length that bounds neither was wrong
        else:
            assert image_and_class(bytes(data)) == (image, number)


@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 2**63 - 1, -1])
def test_classes_of_every_length(number: int) -> None:
    assert image_and_class(encode_example({"class": number, "image": b"pixels"})) == (b"pixels", number)


@pytest.mark.parametrize("size", [0, 1, 100, 101, 127, 128, 16_350, 16_383, 16_384, 2_097_151, 2_097_152])
def test_images_of_every_length(size: int) -> None:
    columns = {"class": 3, "image": b"i" * size, "key": b"k", "label": b"rose", "size": [3, 4]}
    assert image_and_class(encode_example(columns)) == (b"i" * size, 3)


def test_another_encoders_example_is_read_too() -> None:
    import tensorflow as tf

    features = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"pixels"])),
        "class": tf.train.Feature(int64_list=tf.train.Int64List(value=[1234567])),
    }
    data = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

    assert image_and_class(data) == (b"pixels", 1234567)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": b"x"}, "column class: expected 1 of int, found []"),
        ({"image": [b"x", b"y"], "class": 0}, "column image: expected 1 of bytes, found [b'x', b'y']"),
        ({"image": b"x", "class": [1, 2]}, "column class: expected 1 of int, found [1, 2]"),
        ({"image": b"x", "class": b"rose"}, "column class: expected 1 of int, found [b'rose']"),
    ],
    ids=["no class", "two images", "two classes", "class of bytes"],
)
def test_records_without_one_image_and_one_class_are_refused(columns: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as found:
        image_and_class(encode_example(columns))  # type: ignore[arg-type]

    assert str(found.value) == message


def test_every_cut_of_a_record_is_refused() -> None:
    data = encode_example({"image": b"i" * 300, "class": 5, "key": b"k"})
    for size in range(len(data) - 10):
        with pytest.raises(ValueError, match=r"^not a tf\.train\.Example|^column"):
            image_and_class(data[:size])


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
