from __future__ import annotations

import io
from dataclasses import replace

import pytest
from PIL import Image, ImageCms

from shardfeed.transforms.images.encode import pixel_stats
from shardfeed.transforms.images.formats.keep import stripped_jpeg
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import EncodedImage, process_image
from shardfeed.transforms.images.rejects import Reason, RejectError
from tests.kit import makers as m

KEEP = ImageOptions(height=64, width=96, keep_original=True)
PLAIN = m.saved(m.photo(), "JPEG", quality=90)
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
THUMBNAIL = m.segment(0xE0, b"JFXX\0\x10" + bytes(50))


def test_an_image_of_the_target_size_keeps_every_byte() -> None:
    assert process_image(PLAIN, KEEP) == EncodedImage(PLAIN, 64, 96, ("kept_original",), None)


@pytest.mark.parametrize(
    "data",
    [
        m.saved(m.photo(), "JPEG", quality=90, exif=m.exif(1)),
        m.saved(m.photo(), "JPEG", quality=90, xmp=m.xmp(1)),
        m.saved(m.photo(), "JPEG", quality=90, comment=b"taken at home"),
        m.saved(m.photo(), "JPEG", quality=90, icc_profile=SRGB),
        m.saved(m.photo(), "JPEG", quality=90, dpi=(72, 72)),
        m.with_segments(PLAIN, m.segment(0xED, b"Photoshop 3.0\0 name")),
        m.with_segments(PLAIN, THUMBNAIL),
        PLAIN + b"PK\3\4 what hides behind a picture",
    ],
    ids=["exif", "xmp", "comment", "srgb-profile", "resolution", "iptc", "thumbnail", "tail"],
)
def test_metadata_is_dropped_without_touching_the_rest(data: bytes) -> None:
    assert data != PLAIN
    assert process_image(data, KEEP) == EncodedImage(PLAIN, 64, 96, ("kept_original",), None)


@pytest.mark.parametrize(
    ("data", "options", "fixes"),
    [
        (m.saved(m.photo(), "JPEG", progressive=True), KEEP, ()),
        (m.saved(m.photo(mode="L"), "JPEG"), KEEP, ("gray_to_rgb",)),
        (PLAIN, replace(KEEP, channels="gray"), ()),
        (PLAIN, replace(KEEP, width=95), ()),
        (PLAIN, replace(KEEP, height=65, resize="pad"), ()),
        (m.saved(m.photo(), "JPEG", exif=m.exif(3)), KEEP, ("exif_orientation",)),
        (m.saved(m.photo(), "JPEG", icc_profile=m.wide_profile()), KEEP, ("icc_to_srgb",)),
        (m.saved(m.photo(mode="CMYK"), "JPEG"), KEEP, ("cmyk_to_rgb",)),
        (m.saved(m.photo(), "PNG"), replace(KEEP, format="png"), ()),
        (PLAIN, replace(KEEP, keep_original=False), ()),
    ],
    ids=["progressive", "gray", "to-gray", "narrower", "padded", "turned", "profile", "cmyk", "png", "not-asked"],
)
def test_what_has_to_change_is_encoded_again(data: bytes, options: ImageOptions, fixes: tuple[str, ...]) -> None:
    assert process_image(data, options).fixes == fixes


@pytest.mark.parametrize(("mode", "kept"), [("shortest", True), ("longest", False)])
def test_an_image_that_is_small_enough_is_kept(mode: str, kept: bool) -> None:
    options = replace(KEEP, height=70, width=70, resize=mode)  # type: ignore[arg-type]
    assert ("kept_original" in process_image(PLAIN, options).fixes) is kept


def test_gray_restart_markers_and_odd_samplings_are_kept() -> None:
    gray = m.saved(m.photo(mode="L"), "JPEG")
    assert process_image(gray, replace(KEEP, channels="gray")).data == gray
    odd = m.saved(m.photo(), "JPEG", subsampling=1, restart_marker_blocks=1)
    assert process_image(odd, KEEP).data == odd


def test_adobes_marker_is_kept_without_what_hangs_on_it() -> None:
    data = m.saved(m.photo(), "JPEG", keep_rgb=True)  # colours that only this marker says are not YCbCr
    end = m.at_marker(data, 0xEE) + 16
    longer = data[: end - 14] + b"\0\x12" + data[end - 12 : end] + b"home" + data[end:]
    assert [process_image(source, KEEP).data for source in (data, longer)] == [data, data]


def test_a_kept_image_is_proven_whole() -> None:
    with pytest.raises(RejectError) as caught:
        process_image(PLAIN[: len(PLAIN) * 3 // 4], KEEP)
    assert caught.value.reason is Reason.TRUNCATED


def test_statistics_of_a_kept_image_are_those_of_its_pixels() -> None:
    assert process_image(PLAIN, KEEP, with_stats=True).stats == pixel_stats(Image.open(io.BytesIO(PLAIN)))


FRAME = m.at_marker(PLAIN, 0xC0)


@pytest.mark.parametrize(
    "data",
    [
        m.patched(PLAIN, FRAME + 4, b"\x0c"),
        PLAIN[:FRAME] + PLAIN[FRAME : FRAME + 19] + PLAIN[FRAME:],
        PLAIN[:FRAME] + PLAIN[FRAME + 19 :],
        m.with_segments(PLAIN, m.segment(0xF0, b"reserved by the standard")),
    ],
    ids=["twelve-bit", "two-frames", "no-frame", "unknown-segment"],
)
def test_only_one_frame_of_8_bits_between_known_segments_is_kept(data: bytes) -> None:
    assert stripped_jpeg(data) is None


def test_stripping_any_bytes_ends() -> None:
    data = m.saved(m.photo(), "JPEG", exif=m.exif(1), restart_marker_blocks=2)
    for length in range(len(data)):
        assert stripped_jpeg(data[:length]) is None
    for position in range(2, 700):
        stripped_jpeg(m.patched(data, position, b"\xff"))
        stripped_jpeg(m.patched(data, position, b"\x00"))
