from __future__ import annotations

from dataclasses import replace

import pytest

from shardfeed.transforms.images.options import Format, ImageOptions
from shardfeed.transforms.images.process import process_image
from tests.kit import makers as m

SECRET = b"52.5163N 13.3777E"
EVERYTHING = {"exif": m.exif(1) + SECRET, "icc_profile": m.wide_profile(), "xmp": m.xmp(1) + SECRET}
SOURCES = {
    "jpeg": m.saved(m.photo(), "JPEG", comment=SECRET, dpi=(72, 72), **EVERYTHING) + SECRET,
    "png": m.with_chunks(
        m.saved(m.photo(), "PNG", dpi=(72, 72), **EVERYTHING), m.chunk(b"tEXt", b"Comment\0" + SECRET)
    ),
    "webp": m.saved(m.photo(), "WEBP", **EVERYTHING),
    "gif": m.saved(m.photo(), "GIF", comment=SECRET),
}
CARRIERS = [
    b"Exif",
    b"eXIf",
    b"EXIF",
    b"ICC_PROFILE",
    b"iCCP",
    b"ICCP",
    b"XMP",
    b"xap",
    b"tEXt",
    b"iTXt",
    b"pHYs",
    SECRET,
]


@pytest.mark.parametrize("size", [(96, 64), (48, 32)], ids=["same-size", "resized"])
@pytest.mark.parametrize(
    ("target", "keep"),
    [("jpeg", True), ("jpeg", False), ("png", False), ("webp", False)],
    ids=["kept", "jpeg", "png", "webp"],
)
@pytest.mark.parametrize("source", SOURCES)
def test_nothing_but_pixels_is_carried_over(source: str, target: Format, keep: bool, size: tuple[int, int]) -> None:
    options = ImageOptions(width=size[0], height=size[1], format=target, keep_original=keep)
    stored = process_image(SOURCES[source], options).data
    assert [name for name in CARRIERS if name in stored] == []


def test_a_stored_jpeg_has_only_the_segments_that_a_decoder_needs() -> None:
    stored = process_image(SOURCES["jpeg"], replace(ImageOptions(), height=64, width=96)).data
    markers, position = [], 2
    while stored[position + 1] != 0xDA:
        markers.append(stored[position + 1])
        position += 2 + int.from_bytes(stored[position + 2 : position + 4], "big")
    assert markers == [0xE0, 0xDB, 0xDB, 0xC0, 0xC4, 0xC4, 0xC4, 0xC4]  # JFIF, tables, baseline frame
