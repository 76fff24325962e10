"""Records of our own build take the quick parser: nothing else would show that its encoder's layout had left it behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import shardfeed
from shardfeed.array_decode import _scanned
from shardfeed.example import decode_example
from shardfeed.tfrecord import scan
from tests.promises.builds import build
from tests.promises.photos import make_photos

CLASSES = [f"class {number:03d}" for number in range(130)]  # the last two have indices of two bytes


@pytest.mark.parametrize(
    "flags",
    [
        ("--image_format=jpeg",),
        ("--image_format=png",),
        ("--image_format=webp",),
        ("--image_format=raw",),
        ("--image_format=raw", "--channels=gray"),
        ("--keep_original", "--image_size=24x32"),
        ("--resize=longest",),
    ],
    ids=" ".join,
)
def test_every_record_of_a_build_is_scanned_quickly(tmp_path: Path, flags: tuple[str, ...]) -> None:
    photos = make_photos(tmp_path / "photos", classes=CLASSES, each=1)
    ended = build(photos, tmp_path / "out", *flags)
    assert ended.code == 0, ended
    split = shardfeed.info(tmp_path / "out").splits["train"]

    seen = []
    for shard in split.shards:
        with open(tmp_path / "out" / shard.file, "rb") as file:
            for _, data in scan(file):
                careful = decode_example(data)
                assert _scanned(data) == (careful["image"][0], careful["class"][0])
                seen += careful["class"]
    assert sorted(seen) == list(range(len(CLASSES)))
