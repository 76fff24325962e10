"""The estimated bytes of a record, against photos that are really encoded; and the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardfeed.transforms.elements import Plan, SplitPlan, unpack_refs
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.estimate import estimate_work, record_estimate
from shardfeed.transforms.run.state import Run
from tests.kit.commands import REPOSITORY

DEFAULT = ImageOptions()
PHOTOS = InputRoot(str(REPOSITORY / "examples" / "sample_photos"))


@pytest.fixture(scope="module")
def mean_bytes() -> Callable[[ImageOptions], float]:
    """Mean bytes of the records that a sample of real photos becomes."""
    refs = [ref for batch in list_all((PHOTOS,)) for ref in unpack_refs(batch.refs)]
    refs = sorted(refs, key=lambda ref: ref.key)[::20]
    classes = tuple({ref.key.split(b"/")[0].decode() for ref in refs})

    def measure(image: ImageOptions) -> float:
        plan = Plan("f", classes, {}, len(refs), {"train": SplitPlan(1, 1, len(refs))})
        settings = EncoderSettings([PHOTOS.url], BuildOptions(image=image), Run("run", "nowhere"), threads=1)
        encoder = SliceEncoder(plan, settings)
        try:
            return sum(encoder.try_out(ref)[0] for ref in refs) / len(refs)
        finally:
            encoder.close()

    return measure


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"quality": 1},
        {"quality": 100},
        {"channels": "gray"},
        {"format": "webp"},
        {"format": "png"},
        {"format": "png", "channels": "gray"},
        {"format": "raw"},
        {"format": "raw", "channels": "gray"},
        {"width": 320},
        {"resize": "shortest"},
        {"resize": "longest"},
        {"keep_original": True, "height": 2_000, "width": 2_000, "resize": "longest"},
    ],
    ids=str,
)
def test_it_is_near_what_photos_become(changes: dict[str, object], mean_bytes: Callable[[ImageOptions], float]) -> None:
    options = replace(DEFAULT, **changes)  # type: ignore[arg-type]
    sizes = [path.stat().st_size for path in Path(PHOTOS.url).rglob("*.jpg")]
    estimated = sum(record_estimate(options)(size) for size in sizes) / len(sizes)
    assert 0.9 < estimated / mean_bytes(options) < 1.3


def test_the_source_does_not_count_where_pixels_are_made_anew() -> None:
    assert len({record_estimate(DEFAULT)(source_bytes) for source_bytes in (0, 100, 64 << 20)}) == 1


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


def test_a_higher_quality_never_makes_it_smaller() -> None:
    found = [record_estimate(replace(DEFAULT, quality=quality))(1) for quality in range(1, 101)]
    assert found == sorted(found)


def test_the_estimate_is_fixed_for_ever() -> None:
    """It decides the number of parts: another one makes another dataset of the same input."""
    options = [{}, {"quality": 92}, {"format": "webp", "channels": "gray"}, {"format": "png"}, {"resize": "shortest"}]
    found = [record_estimate(replace(DEFAULT, **changes))(10**6) for changes in options]  # type: ignore[arg-type]
    assert found == [21703, 18090, 14076, 71911, 28677]
