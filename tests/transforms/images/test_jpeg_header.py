"""Our reader of JPEG headers finds what Pillow's finds."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from shardfeed.transforms.images.jpeg_header import read_jpeg_header
from tests.corpus.cases import CASES, Case

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


@pytest.mark.parametrize(
    ("pieces", "profile"),
    [([b"\2\2b", b"\1\2a"], b"ab"), ([b"\1\2a"], None), ([b"\1"], None)],
    ids=["out of order", "one is missing", "cut"],
)
def test_a_profile_is_joined_from_its_pieces_if_all_are_there(pieces: list[bytes], profile: bytes | None) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    segments = [b"ICC_PROFILE\0" + piece for piece in pieces]
    added = b"".join(b"\xff\xe2" + (len(body) + 2).to_bytes(2, "big") + body for body in segments)
    data = buffer.getvalue()
    assert read_jpeg_header(data[:2] + added + data[2:]).info == {"icc_profile": profile}
