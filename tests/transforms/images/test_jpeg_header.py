"""Our reader of JPEG headers finds what Pillow's finds."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from shardfeed.transforms.images.formats.jpeg_header import read_jpeg_header
from shardfeed.transforms.images.rejects import Reason, RejectError
from tests.corpus.cases import CASES, Case
from tests.kit import makers as m

JPEGS = [case for case in CASES if case.outcome == "OK" and case.make().startswith(b"\xff\xd8\xff")]


@pytest.mark.filterwarnings("ignore")  # Pillow's, about broken EXIF
@pytest.mark.parametrize("case", JPEGS, ids=lambda case: case.name)
def test_size_mode_and_metadata_are_those_of_pillow(case: Case) -> None:
    data = case.make()
    with Image.open(io.BytesIO(data)) as image:
        header = read_jpeg_header(data)
        assert (header.size, header.mode) == (image.size, image.mode)
        for name in ("exif", "xmp", "icc_profile"):
            assert header.info.get(name) == image.info.get(name)
        assert ("adobe" in header.info) == ("adobe" in image.info)


def _with_profile(pieces: list[bytes]) -> bytes:
    segments = [m.segment(0xE2, b"ICC_PROFILE\0" + piece) for piece in pieces]
    return m.with_segments(m.saved(m.photo(), "JPEG"), *segments)


@pytest.mark.parametrize(
    ("pieces", "profile"), [([b"\2\2b", b"\1\2a"], b"ab"), ([b"\1\2a"], None)], ids=["out of order", "one is missing"]
)
def test_a_profile_is_joined_from_its_pieces_if_all_are_there(pieces: list[bytes], profile: bytes | None) -> None:
    assert read_jpeg_header(_with_profile(pieces)).info == {"icc_profile": profile}


def test_a_profile_behind_the_frame_is_ignored() -> None:
    data = m.saved(m.photo(), "JPEG")
    scan = m.at_marker(data, 0xDA)
    assert read_jpeg_header(data[:scan] + m.segment(0xE2, b"ICC_PROFILE\0\1\1a") + data[scan:]).info == {}


def test_what_follows_a_short_segment_is_not_taken_for_its_content() -> None:
    short = b"\xff\xee\0\x02Adobe\0\x64\0\0\0\0\2"
    assert read_jpeg_header(m.with_segments(m.saved(m.photo(), "JPEG"), short)).info == {}


def test_a_marker_without_a_segment_and_bytes_between_segments_are_skipped() -> None:
    adobe = m.segment(0xEE, b"Adobe\0\x64\0\0\0\0\2")
    for between in (b"\xff\xd0", b"\xff", b"\0\xff\0junk"):
        assert read_jpeg_header(m.with_segments(m.saved(m.photo(), "JPEG"), between, adobe)).info == {"adobe": True}


@pytest.mark.parametrize(
    "segment",
    [
        m.segment(0xE0, b"JFIF\0\1"),
        m.segment(0xE2, b"ICC_PROFILE\0\1"),
        m.segment(0xEE, b"Adobe\0"),
        b"\xff\x02",
        b"\xffx\xff\xff",
    ],
    ids=["JFIF", "profile", "Adobe", "no marker", "no marker, long"],
)
def test_a_segment_that_is_too_short_and_an_unknown_marker_are_malformed(segment: bytes) -> None:
    with pytest.raises(RejectError, match="malformed header") as found:
        read_jpeg_header(m.with_segments(m.saved(m.photo(), "JPEG"), segment))
    assert found.value.reason is Reason.CORRUPT
