"""The estimate of encoded bytes: exact integers, since the number of parts follows from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.planning.estimate import RECORD_OVERHEAD, estimate_record_bytes, estimate_work

DEFAULT = ImageOptions()
AREA = 224 * 224


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (DEFAULT, AREA * 417 // 1000 + 620 + 160),
        (replace(DEFAULT, quality=75), AREA * 181 // 1000 + 620 + 160),
        (replace(DEFAULT, quality=92), AREA * (297 + 120 * 2 // 5) // 1000 + 620 + 160),
        (replace(DEFAULT, quality=1), AREA * 30 // 1000 + 620 + 160),
        (replace(DEFAULT, quality=100), AREA * 900 // 1000 + 620 + 160),
        (replace(DEFAULT, channels="gray"), AREA * (417 * 85 // 100) // 1000 + 620 + 160),
        (replace(DEFAULT, format="webp"), AREA * (417 * 75 // 100) // 1000 + 620 + 160),
        (replace(DEFAULT, format="png"), AREA * 1430 // 1000 + 160),
        (replace(DEFAULT, format="png", channels="gray"), AREA * 1430 // 2500 + 160),
        (replace(DEFAULT, format="raw"), AREA * 3 + 160),
        (replace(DEFAULT, format="raw", channels="gray"), AREA + 160),
        (replace(DEFAULT, height=224, width=320), 224 * 320 * 417 // 1000 + 620 + 160),
        (replace(DEFAULT, resize="shortest"), AREA * 4 // 3 * 417 // 1000 + 620 + 160),
        (replace(DEFAULT, resize="longest"), AREA * 3 // 4 * 417 // 1000 + 620 + 160),
    ],
    ids=lambda value: (
        f"{value.format}-{value.channels}-{value.resize}-q{value.quality}" if not isinstance(value, int) else ""
    ),
)
def test_it_follows_from_area_format_and_quality(options: ImageOptions, expected: int) -> None:
    assert estimate_record_bytes(10**6, options) == expected


@pytest.mark.parametrize("source_bytes", [0, 100, 64 << 20])
def test_the_source_does_not_count_where_pixels_are_made_anew(source_bytes: int) -> None:
    assert estimate_record_bytes(source_bytes, DEFAULT) == estimate_record_bytes(1, DEFAULT)


def test_kept_originals_are_at_most_as_large_as_their_source() -> None:
    keep = replace(DEFAULT, keep_original=True)

    assert estimate_record_bytes(5_000, keep) == 5_000 + RECORD_OVERHEAD
    assert estimate_record_bytes(10**6, keep) == estimate_record_bytes(10**6, DEFAULT)


@pytest.mark.parametrize(
    ("key", "source_bytes", "expected"),
    [
        (b"cat/photo.jpg", 1, 1),
        (b"cat/photo.JPEG", 20_000, 20_000),
        (b"cat/two.pictures.mpo", 7_000_000, 7_000_000),
        (b"page.png", 0, 0),
        (b"page.png", 300, 60_000),
        (b"page.PNG", 24_999, 4_999_800),
        (b"page.webp", 25_000, 5_000_000),
        (b"page.webp", 25_001, 5_000_000),
        (b"a.d/0f3c", 20_000, 20_000),
        (b"cat/film.jpg", 64 << 20, 64 << 20),
        (b"cat/film.jpg", (64 << 20) + 1, 0),  # it is not read
        (b"cat/film.png", 5 << 40, 0),
        (b"drawing.jpg.gif", 5_000_001, 5_000_001),
    ],
)
def test_work_is_bytes_where_they_tell_and_a_large_photo_s_where_they_do_not(
    key: bytes, source_bytes: int, expected: int
) -> None:
    assert estimate_work(key, source_bytes) == expected


@pytest.mark.parametrize("quality", range(1, 100))
def test_a_higher_quality_never_makes_it_smaller(quality: int) -> None:
    below, above = replace(DEFAULT, quality=quality), replace(DEFAULT, quality=quality + 1)
    assert estimate_record_bytes(1, below) <= estimate_record_bytes(1, above)
