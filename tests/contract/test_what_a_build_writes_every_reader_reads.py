"""One real build per image format, read by every kind of reader: every key once, with its label
and its picture.

Each image has one colour of its own, so that a picture tells which image it is, also after lossy
compression.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import shardfeed
from shardfeed.cli.main import main
from shardfeed.testing import assert_dataset_intact

CLASSES = ("a b", "daisy", "größe")
SPLITS = ("train", "validation")
FORMATS = ("jpeg", "png", "webp", "raw")
# as far apart as no compression here moves them
COLOURS = list(itertools.product((20, 70, 120, 170), repeat=3))
Seen = list[tuple[str, int, int]]
"""Key, label and number of the image by its colour."""


@dataclass(frozen=True)
class Built:
    """A dataset, and what is in it by the input alone."""

    out: Path
    image_format: str
    images: Seen

    def colour_of(self, pixels: Any) -> int:
        """Number of the image of these ``pixels``, uint8[16, 16, 3]."""
        assert pixels.shape == (16, 16, 3) and pixels.dtype == np.uint8
        off = np.abs(pixels.reshape(-1, 3).astype(int)[:, None] - np.array(COLOURS)).max(axis=(0, 2))
        assert off.min() <= (8 if self.image_format in ("jpeg", "webp") else 0)
        return int(off.argmin())

    def decoded(self, data: bytes) -> int:
        """Number of the image whose stored bytes are ``data``."""
        if self.image_format == "raw":
            return self.colour_of(np.frombuffer(data, np.uint8).reshape(16, 16, 3))
        with Image.open(io.BytesIO(data), formats=[self.image_format.upper()]) as picture:
            return self.colour_of(np.asarray(picture))

    def shards(self) -> list[Path]:
        return sorted(self.out.glob("*.tfrecord"))


@pytest.fixture(scope="module")
def all_built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """A build in each format."""
    return {name: _build(name, tmp_path_factory.mktemp(name)) for name in FORMATS}


@pytest.fixture(params=FORMATS)
def built(request: pytest.FixtureRequest, all_built: dict[str, Built]) -> Built:
    return all_built[request.param]


def _build(image_format: str, folder: Path) -> Built:
    images = []
    for number, colour in enumerate(COLOURS):
        label = number % len(CLASSES)
        key = f"{CLASSES[label]}/{number:02}.png"
        path = folder / "photos" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (24, 20), colour).save(path)
        images.append((key, label, number))
    flags = ["--image_size", "16", "--image_format", image_format, "--num_shards", "4"]
    flags += ["--splits", "train=0.7,validation=0.3"]
    assert main(["build", "--input", str(folder / "photos"), "--output", str(folder / "out"), *flags]) == 0
    return Built(folder / "out", image_format, sorted(images))


def test_load(built: Built) -> None:
    def read(split: str) -> Seen:
        batches = shardfeed.load(built.out, split, 8, training=False, as_dict=True, eval_remainder="partial")
        return [
            (key.decode(), int(label), built.colour_of(image))
            for batch in batches.as_numpy_iterator()
            for key, label, image in zip(batch["key"], batch["label"], batch["image"], strict=True)
        ]

    assert sorted(itertools.chain(*map(read, SPLITS))) == built.images


def test_load_of_one_training_pass(all_built: dict[str, Built]) -> None:
    built = all_built["jpeg"]
    batches = shardfeed.load(built.out, "train", 1, epochs=1, as_dict=True).as_numpy_iterator()
    seen = [(b["key"][0].decode(), int(b["label"][0]), built.colour_of(b["image"][0])) for b in batches]
    train = {key for key, _, _ in seen}
    assert len(seen) == len(train) and sorted(seen) == [image for image in built.images if image[0] in train]


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
def test_array_batches_gives_what_load_gives_in_the_same_order(built: Built) -> None:
    for split in SPLITS:
        ours = shardfeed.array_batches(built.out, split, 8, training=False)
        theirs = shardfeed.load(built.out, split, 8, training=False)
        for one, other in zip(ours, theirs.as_numpy_iterator(), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_deep_verification(built: Built) -> None:
    assert_dataset_intact(built.out)


def stored(built: Built) -> list[tuple[str, int, bytes]]:
    """Key, label and stored image of each record in the order of the files, by TensorFlow's own parser
    and the columns of the tutorials.
    """
    columns = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "class": tf.io.FixedLenFeature([], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.string),
        "size": tf.io.FixedLenFeature([2], tf.int64),
        "key": tf.io.FixedLenFeature([], tf.string),
    }
    found = []
    for record in tf.data.TFRecordDataset(list(map(str, built.shards()))).as_numpy_iterator():
        one = {name: value.numpy() for name, value in tf.io.parse_single_example(record, columns).items()}
        assert one["label"].decode() == CLASSES[one["class"]] and list(one["size"]) == [16, 16]
        found.append((one["key"].decode(), int(one["class"]), one["image"]))
    return found


def test_tensorflows_own_parser_and_a_reader_that_seeks_by_the_index_files(all_built: dict[str, Built]) -> None:
    parsed = []
    for built in all_built.values():
        records = stored(built)
        assert sorted((key, label, built.decoded(image)) for key, label, image in records) == built.images
        parsed += [[key, label, hashlib.sha256(image).hexdigest()] for key, label, image in records]
    script, shards = Path(__file__).with_name("read_with_tfrecord.py"), [one.shards() for one in all_built.values()]
    program: list[str | Path] = [sys.executable, script, *itertools.chain(*shards)]
    seen = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert seen == parsed
