"""Fingerprints of pictures: equal for the same picture, near for a changed one, whatever is built."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from shardfeed.transforms.duplicates.near_pairs import CONFIRMED, NEAR
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.pixels.perceptual_hash import CELLS, Samples, fingerprints
from shardfeed.transforms.images.process import process_image, take_samples
from tests.kit import makers as m
from tests.kit.sources import ROOT

PHOTOS = sorted((ROOT / "examples" / "sample_photos").rglob("*.jpg"))[::8]
Prints = tuple[int, tuple[int, ...]]


def prints_of(samples: Samples) -> Prints:
    samples.count = 1
    near, sure, _ = samples.hashes()
    return int(near[0]), tuple(sure[0].tolist())


def prints(data: bytes, options: ImageOptions | None = None) -> Prints:
    process_image(data, options or ImageOptions(), samples=(samples := Samples(1)))
    return prints_of(samples)


def scaled(percent: int, photo: Image.Image) -> bytes:
    size = photo.width * percent // 100, photo.height * percent // 100
    return m.saved(photo.resize(size, Image.Resampling.LANCZOS), "JPEG", quality=90)


def brighter(factor: float, photo: Image.Image) -> bytes:
    return m.saved(ImageEnhance.Brightness(photo).enhance(factor), "JPEG", quality=90)


CHANGES: dict[str, Callable[[Image.Image], bytes]] = {
    **{f"scale {percent} %": partial(scaled, percent) for percent in (50, 67, 150)},
    "quality 30": lambda photo: m.saved(photo, "JPEG", quality=30),
    "quality 95": lambda photo: m.saved(photo, "JPEG", quality=95),
    "gray": lambda photo: m.saved(photo.convert("L"), "JPEG", quality=90),
    "BMP": lambda photo: m.saved(photo, "BMP"),
    "brightness 80 %": partial(brighter, 0.8),
    "brightness 120 %": partial(brighter, 1.2),
}


def are_near(one: Prints, two: Prints) -> bool:
    bits = (one[0] ^ two[0]).bit_count()
    more = sum((mine ^ theirs).bit_count() for mine, theirs in zip(one[1], two[1], strict=True))
    return bits <= NEAR and more <= CONFIRMED


@pytest.fixture(scope="module")
def originals() -> list[tuple[Image.Image, Prints]]:
    photos = [Image.open(path).convert("RGB") for path in PHOTOS]
    return [(photo, prints(m.saved(photo, "JPEG", quality=95))) for photo in photos]


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_photo_is_near_its_original(name: str, originals: list[tuple[Image.Image, Prints]]) -> None:
    """All of 25 photos; benchmarks/duplicates.py measures with more."""
    assert [are_near(original, prints(CHANGES[name](photo))) for photo, original in originals] == [True] * 25


@pytest.mark.parametrize("side", [100, 400, 500, 1_000])
def test_neither_size_nor_way_of_resizing_changes_a_bit(side: int) -> None:
    data = m.saved(Image.open(PHOTOS[0]).convert("RGB").resize((side, side * 4 // 3)), "JPEG", quality=90)
    targets = (
        ImageOptions(32, 32),
        ImageOptions(100, 100, format="png"),
        ImageOptions(500, 500),
        ImageOptions(224, 224, resize="squash", format="raw"),
        ImageOptions(224, 224, resize="pad"),
        ImageOptions(64, 64, resize="shortest"),
        ImageOptions(600, 600, resize="longest", keep_original=True),
    )
    assert {options: prints(data, options) for options in targets} == dict.fromkeys(targets, prints(data))


def test_samples_of_a_stored_image_are_those_of_its_build() -> None:
    photo = Image.open(PHOTOS[1]).convert("RGB")
    for data in (m.saved(photo, "JPEG"), m.saved(photo, "PNG"), m.saved(photo.convert("L"), "JPEG")):
        samples = Samples(1)
        take_samples(data, ImageOptions(), samples, nullcontext)
        assert prints_of(samples) == prints(data)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_hashed_upright(orientation: int) -> None:
    photo = Image.open(PHOTOS[3]).convert("RGB")
    turn = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }.get(orientation)  # fmt: skip
    stored = photo if turn is None else photo.transpose(turn)
    original = prints(m.saved(photo, "JPEG", quality=95))
    assert are_near(prints(m.saved(stored, "JPEG", quality=95, exif=m.exif(orientation))), original)
    assert (orientation == 1) == are_near(prints(m.saved(stored, "JPEG", quality=95)), original)


@pytest.mark.parametrize(("contrast", "has_hash"), [(0, False), (4, False), (8, True), (255, True)])
def test_a_picture_of_almost_no_contrast_has_no_hash(contrast: int, has_hash: bool) -> None:
    cells = np.random.default_rng(1).integers(0, 2, (1, CELLS, CELLS), np.uint8) * np.uint8(contrast)
    assert fingerprints(cells)[2].tolist() == [has_hash]


def test_pictures_that_change_in_one_direction_only_have_no_hash() -> None:
    """Most of their bits are those of waves that are not there, so all such pictures look alike."""
    line = np.random.default_rng(1).integers(0, 256, CELLS, np.uint8)
    across = np.broadcast_to(line, (CELLS, CELLS))
    centred = np.zeros_like(across)
    centred[8:24, 8:24] = 255
    assert fingerprints(np.stack([across, across.T, centred]))[2].tolist() == [False] * 3


def test_fingerprints_are_the_same_on_every_machine() -> None:
    """Also where a float would round in another way: the values are stored."""
    cells = (np.arange(2 * CELLS * CELLS).reshape(2, CELLS, CELLS) ** 2 * 2_654_435_761 >> 7).astype(np.uint8)
    near, sure, _ = fingerprints(cells)
    assert (near.tolist(), sure.tolist()) == STORED


STORED = (
    [9355732547901373472, 12164665851282815635],
    [
        [12457619228475979577, 7044044952653201672, 16248139138270992830, 9890695627836224258],
        [11698705254310738931, 1312998922097984529, 5662533633466195351, 8185095851805685961],
    ],
)
