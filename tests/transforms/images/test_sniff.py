"""What a file is by its first bytes, and the size that a GIF says."""

from __future__ import annotations

import struct

import pytest

from shardfeed.transforms.images.rejects import RejectError
from shardfeed.transforms.images.sniff import Header, read_header, sniff


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0\0\0\x18ftypisom", "FORMAT: looks like a video, or HEIF of another coding; JPEG, PNG"),
        (
            b"one text",
            "FORMAT: unknown signature 6f 6e 65 20 74 65 78 74; JPEG, PNG, WebP, GIF, BMP, HEIC and AVIF are read",
        ),
        (b"BMs are cars, ", "FORMAT: unknown signature 42 4d 73 20 61 72 65 20 63 61 72 73; JPEG"),
        (b"B", "TRUNCATED: only 1 bytes"),
    ],
    ids=["of another format", "of none", "as short as a BMP's first header", "cut"],
)
def test_a_foreign_file_is_named(data: bytes, message: str) -> None:
    with pytest.raises(RejectError, match=message):
        sniff(data)


def _gif(frames: int, end: bytes = b";") -> bytes:
    """A GIF whose colour tables, the screen's and each frame's, hold the signs of blocks."""
    table = b";,!" * 4
    frame = b"," + struct.pack("<HHHHB", 0, 0, 4, 4, 0x81) + table + b"\x02\x02\x4c\x01\0"
    return b"GIF89a" + struct.pack("<HHBBB", 4, 4, 0x81, 0, 0) + table + frame * frames + end


@pytest.mark.parametrize(
    ("data", "animated"),
    [(_gif(1), False), (_gif(2), True), (_gif(1, end=b""), False)],
    ids=["one frame", "two frames", "one frame without an end"],
)
def test_colour_tables_of_a_gif_are_not_taken_for_its_blocks(data: bytes, animated: bool) -> None:
    assert read_header(data, "GIF") == Header("GIF", 4, 4, animated)
