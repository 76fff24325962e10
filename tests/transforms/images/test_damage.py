"""Damaged JPEGs: libjpeg fills what is lost with gray and only warns; a build must refuse that."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks import damage
from shardfeed.transforms.images import decode
from shardfeed.transforms.images.formats.jpeg_header import read_jpeg_header
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image
from shardfeed.transforms.images.rejects import Reason, RejectError
from tests.kit import makers as m
from tests.kit.sources import ROOT

PHOTOS = sorted((ROOT / "examples" / "sample_photos").rglob("*.jpg"))
CUT = ("cut", "cut, end marker added", "zeros from there on", "4 kB of zeros", "a piece of up to 8 kB lost")


def test_damaged_photos_are_rejected_and_whole_ones_are_not() -> None:
    rows = damage.study(PHOTOS[::8], seed=1)

    assert {kind: rows[kind].missed for kind in CUT} == {kind: [] for kind in CUT}
    assert sum(len(row.missed) for row in rows.values()) <= 0.08 * 25 * len(rows)


@pytest.mark.parametrize("kind", CUT)
def test_damaged_photos_are_not_kept(kind: str) -> None:
    data = PHOTOS[0].read_bytes()
    with Image.open(PHOTOS[0]) as picture:
        options = ImageOptions(height=picture.height, width=picture.width, keep_original=True)
    assert process_image(data, options).fixes == ("kept_original",)

    with pytest.raises(RejectError):
        process_image(damage.damaged(data, kind, "seed"), options)


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (m.saved(m.photo(), "JPEG")[:-2], Reason.TRUNCATED, "Premature end of JPEG file"),
        (
            m.saved(m.photo(), "JPEG", exif=b"Exif\0\0" + m.saved(m.photo((8, 8)), "JPEG"))[:-2],
            Reason.TRUNCATED,
            "Premature end of JPEG file",
        ),
        (m.many_scans(100), Reason.CORRUPT, "Inconsistent progression sequence"),
        (m.many_scans(101), Reason.CORRUPT, "progressive JPEG of 101 scans; at most 100"),
    ],
    ids=["no end marker", "no end marker but its preview's", "repeated scan", "too many scans"],
)
def test_a_reject_says_what_libjpeg_found(data: bytes, reason: Reason, detail: str) -> None:
    with pytest.raises(RejectError, match=detail) as found:
        process_image(data, ImageOptions())
    assert found.value.reason is reason


@pytest.mark.parametrize(
    ("make", "colours"),
    [(lambda data: m.patched(data, 11, b"\x03"), {}), (m.odd_scan, {}), (m.odd_scan, {"keep_rgb": True})],
    ids=["JFIF 3", "odd scan", "odd scan, stored as RGB"],
)
def test_a_warning_of_the_header_changes_no_pixel_and_no_kept_file_has_it(
    make: damage.Damage, colours: dict[str, bool]
) -> None:
    whole = m.saved(m.photo(), "JPEG", **colours)
    options = ImageOptions(height=64, width=96, format="raw")
    assert process_image(make(whole), options).data == process_image(whole, options).data

    kept = process_image(make(whole), replace(options, format="jpeg", keep_original=True)).data
    assert "jpeg_warning" not in process_image(kept, options).fixes


def test_a_kept_photo_loses_an_adobe_segment_that_is_too_short_to_say_anything() -> None:
    data = m.with_segments(m.saved(m.photo(), "JPEG"), b"\xff\xee\x00\x09Adobe\0\x64")
    options = ImageOptions(height=64, width=96, keep_original=True)

    assert process_image(data, options).fixes == ("kept_original",)


TINY = m.saved(m.photo((8, 8)), "JPEG", quality=50, optimize=True)
PLAIN = m.saved(m.photo(), "JPEG")
FRAME = m.at_marker(PLAIN, 0xC0)  # it follows a table
LOST_AN_END = next(path for path in PHOTOS if path.name.startswith("80915bfe")).read_bytes()


@pytest.mark.parametrize(
    "data",
    [
        m.without_huffman_table(TINY, 0),  # libjpeg has tables of its own for those that are not there
        m.without_huffman_table(TINY, 2),
        PLAIN[:FRAME] + b"j" + PLAIN[FRAME:],
        LOST_AN_END[:379] + LOST_AN_END[405:],
    ],
    ids=["no table 0", "no table 2", "a byte behind a table", "a table that lost its end"],
)
def test_bytes_where_a_table_may_have_been_are_damage(data: bytes) -> None:
    with pytest.raises(RejectError, match="bytes before marker"):
        process_image(data, ImageOptions())


@pytest.mark.parametrize("position", [2, 20])
def test_bytes_before_the_tables_are_harmless(position: int) -> None:
    junk = PLAIN[:position] + b"\xff\0junk" + PLAIN[position:]

    assert process_image(junk, ImageOptions()).fixes == ("jpeg_warning", "upscaled")


@pytest.mark.parametrize("transform", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", ["RGB", "CMYK"])
@pytest.mark.parametrize("more", [b"", b"home"], ids=["usual", "longer segment"])
def test_a_colour_transform_that_adobe_never_defined_is_taken_as_libjpeg_takes_it(
    mode: str, transform: int, more: bytes
) -> None:
    data = m.with_adobe(m.saved(m.photo(mode=mode), "JPEG"), transform)
    data = data[:4] + (14 + len(more)).to_bytes(2, "big") + data[6:18] + more + data[18:]
    theirs = Image.open(io.BytesIO(data))

    ours, fix, _ = decode.load_jpeg(data, read_jpeg_header(data), 1, mode)

    assert fix == (None if transform in (0, 1 if mode == "RGB" else 2) else "jpeg_warning")
    assert np.array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("RGB", {}),
        ("RGB", {"progressive": True}),
        ("RGB", {"subsampling": 0}),
        ("RGB", {"subsampling": 1}),
        ("RGB", {"keep_rgb": True}),
        ("L", {}),
        ("CMYK", {}),
    ],
    ids=["4:2:0", "progressive", "4:4:4", "4:2:2", "stored as RGB", "gray", "CMYK"],
)
def test_pixels_are_those_of_pillow(mode: str, options: dict[str, int], factor: int) -> None:
    data = m.saved(m.photo((203, 157)).convert(mode), "JPEG", quality=90, **options)
    theirs = Image.open(io.BytesIO(data))
    theirs.draft(None, (203 // factor, 157 // factor))

    ours, fix, _ = decode.load_jpeg(data, read_jpeg_header(data), factor, mode)

    assert (ours.mode, fix) == (mode, None)
    assert np.array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("options", [{}, {"channels": "gray"}, {"height": 20, "width": 30}], ids=str)
def test_a_rare_sampling_is_decoded_by_pillow_counted_and_not_kept(options: dict[str, Any]) -> None:
    chosen = replace(ImageOptions(height=64, width=96, format="raw"), **options)
    data = m.with_rare_sampling()

    found = process_image(data, chosen)

    assert "jpeg_unchecked" in found.fixes
    with Image.open(io.BytesIO(data)) as picture:
        if chosen.height == 20:
            picture.draft(None, (48, 32))
        assert found.data == process_image(m.saved(picture.copy(), "PNG"), chosen).data or chosen.channels == "gray"
    kept = process_image(data, replace(chosen, format="jpeg", keep_original=True))
    assert "kept_original" not in kept.fixes
