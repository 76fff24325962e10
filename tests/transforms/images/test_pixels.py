"""Colours and places of pixels, asserted on raw output, where nothing is lost after the resize."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageChops, ImageCms

from shardfeed.transforms.images import decode
from shardfeed.transforms.images.formats.jpeg_header import read_jpeg_header
from shardfeed.transforms.images.options import ImageOptions, ResizeMode
from shardfeed.transforms.images.pixels.colour import fill_colour, to_srgb
from shardfeed.transforms.images.pixels.geometry import geometry_of
from shardfeed.transforms.images.process import EncodedImage, process_image
from tests.kit import makers as m

MODES: list[ResizeMode] = ["crop", "squash", "pad", "shortest", "longest"]
RAW = ImageOptions(height=8, width=8, resize="squash", format="raw")


def pixels(data: bytes, options: ImageOptions = RAW) -> Image.Image:
    stored = process_image(data, options)
    mode = "L" if options.channels == "gray" else "RGB"
    return Image.frombytes(mode, (stored.width, stored.height), stored.data)


def flat(colour: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", (8, 8), colour)


def worst(one: Image.Image, other: Image.Image) -> int:
    """Largest difference of a sample, in levels."""
    assert (one.size, one.mode) == (other.size, other.mode)
    return int(np.asarray(ImageChops.difference(one.convert("RGB"), other.convert("RGB"))).max())


def test_sixteen_bits_are_divided_by_257_and_rounded() -> None:
    values = [[0, 128, 129, 256, 257, 385, 386, 65535]] * 8
    assert (
        pixels(m.gray16_png(values), replace(RAW, channels="gray")).tobytes() == bytes([0, 0, 1, 1, 1, 1, 2, 255]) * 8
    )


def test_sixteen_bit_colours_keep_their_high_bytes() -> None:
    assert pixels(m.rgb16_png((8, 8), (65535, 32768, 0))).tobytes() == flat((255, 128, 0)).tobytes()


def test_a_transparent_sixteen_bit_value_takes_the_background() -> None:
    data = m.gray16_png([[32768] * 4 + [500] * 2 + [501] * 2] * 8, m.chunk(b"tRNS", struct.pack(">H", 500)))
    stored = pixels(data, replace(RAW, background=(10, 200, 30)))
    assert [stored.getpixel((x, 0)) for x in (0, 4, 6)] == [(128, 128, 128), (10, 200, 30), (2, 2, 2)]


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_composited_on_the_background(mode: str) -> None:
    image = Image.new("RGBA", (8, 8), (200, 200, 200, 255))
    image.paste((200, 200, 200, 0), (0, 0, 4, 8))
    image.paste((200, 200, 200, 51), (4, 0, 6, 8))  # a fifth
    stored = pixels(m.saved(image.convert(mode), "PNG"), replace(RAW, background=(100, 50, 50)))
    assert [stored.getpixel((x, 0)) for x in (0, 4, 6)] == [(100, 50, 50), (120, 80, 80), (200, 200, 200)]


def test_a_background_is_no_colour_of_the_profile() -> None:
    image = flat((100, 180, 100)).convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 4, 8))
    stored = pixels(m.saved(image, "PNG", icc_profile=m.wide_profile()), replace(RAW, background=(100, 180, 100)))
    assert stored.getpixel((0, 0)) == (100, 180, 100)
    assert worst(stored.crop((7, 0, 8, 1)), Image.new("RGB", (1, 1), (0, 181, 97))) <= 3


def test_the_gray_of_a_background_is_that_of_an_image() -> None:
    levels = range(0, 256, 17)
    colours = list(product(levels, levels, levels))
    image = Image.frombytes("RGB", (len(colours), 1), bytes(part for colour in colours for part in colour))
    assert bytes(fill_colour("L", colour) for colour in colours) == image.convert("L").tobytes()  # type: ignore[misc]


def test_a_transparent_palette_entry_takes_the_background() -> None:
    image = Image.new("P", (8, 8), 1)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.paste(0, (0, 0, 4, 8))
    stored = pixels(m.saved(image, "PNG", transparency=0), replace(RAW, background=(1, 2, 3)))
    assert [stored.getpixel((x, 0)) for x in (0, 7)] == [(1, 2, 3), (40, 50, 60)]


def test_a_transparent_colour_takes_the_background() -> None:
    image = flat((5, 6, 7))
    image.paste((9, 9, 9), (0, 0, 4, 8))
    stored = pixels(m.saved(image, "PNG", transparency=(9, 9, 9)), replace(RAW, background=(1, 2, 3)))
    assert [stored.getpixel((x, 0)) for x in (0, 7)] == [(1, 2, 3), (5, 6, 7)]


def test_a_transparent_two_bit_gray_takes_the_background() -> None:
    data = m.png(m.header(8, 8, 2, 0), m.chunk(b"tRNS", b"\0\2"), m.rows([b"\xaa\x55"] * 8), m.END)
    stored = pixels(data, replace(RAW, background=(1, 2, 3)))
    assert [stored.getpixel((x, 0)) for x in (0, 7)] == [(1, 2, 3), (85, 85, 85)]


def test_one_bit_is_black_and_white() -> None:
    image = Image.new("1", (8, 8))
    image.paste(1, (4, 0, 8, 8))
    stored = pixels(m.saved(image, "PNG"))
    assert [stored.getpixel((x, 0)) for x in (0, 7)] == [(0, 0, 0), (255, 255, 255)]


@pytest.mark.parametrize(
    ("inks", "colour"),
    [((0, 0, 0, 0), (255, 255, 255)), ((0, 0, 0, 255), (0, 0, 0)), ((255, 0, 0, 0), (0, 255, 255))],
    ids=["paper", "black", "cyan"],
)
@pytest.mark.parametrize("adobe", [True, False], ids=["adobe", "plain"])
def test_inks_become_colours_however_they_are_coded(
    inks: tuple[int, ...], colour: tuple[int, int, int], adobe: bool
) -> None:
    image = Image.new("CMYK", (8, 8), inks)
    if not adobe:  # Pillow writes Adobe's inverted form: write the other one
        image = ImageChops.invert(image)
    data = m.saved(image, "JPEG", quality=100)
    assert worst(pixels(data if adobe else m.without_adobe(data)), flat(colour)) <= 2


@pytest.mark.parametrize(("luma", "black"), list(product((0, 100, 255), (0, 255))))
def test_ycck_is_gray_by_its_luma_and_black_by_its_ink(luma: int, black: int) -> None:
    gray = 255 - luma if black == 255 else 0  # Y is the luma of the inks; K is inverted, 255 is no ink
    assert worst(pixels(m.flat_ycck(luma, black)), flat((gray, gray, gray))) <= 2


def test_inks_follow_their_profile() -> None:
    data = m.saved(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "JPEG", icc_profile=m.ink_profile())
    assert worst(pixels(data), flat((0, 0, 0))) <= 2  # this profile's cyan is black


def test_a_wide_gamut_green_becomes_the_srgb_green_that_it_is() -> None:
    data = m.saved(flat((100, 180, 100)), "PNG", icc_profile=m.wide_profile())
    assert worst(pixels(data), flat((0, 181, 97))) <= 3  # by the two spaces' matrices; red is out of gamut


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_gray_is_made_of_the_colours_that_a_profile_means(kind: str) -> None:
    data = m.saved(flat((100, 180, 100)), kind, icc_profile=m.wide_profile())
    colour = pixels(data)
    assert worst(pixels(data, replace(RAW, channels="gray")), colour.convert("L")) == 0


def test_a_profile_of_4_mib_is_the_largest() -> None:
    largest, fixes = m.wide_profile().ljust(4 << 20, b"\0"), set[str]()
    to_srgb(flat((100, 180, 100)), largest, fixes)
    to_srgb(flat((100, 180, 100)), largest + b"\0", fixes)
    assert fixes == {"icc_to_srgb", "icc_broken"}


def test_a_gray_profile_of_gamma_one_brightens() -> None:
    data = m.saved(Image.new("L", (8, 8), 55), "PNG", icc_profile=m.gray_profile(1.0))
    assert worst(pixels(data), flat((128, 128, 128))) <= 2  # linear 55 / 255 is sRGB 128


def test_an_srgb_profile_changes_nothing_and_is_not_counted() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = m.photo((8, 8))
    stored = process_image(m.saved(picture, "PNG", icc_profile=profile), RAW)
    assert stored == EncodedImage(picture.tobytes(), 8, 8, (), None)


@pytest.mark.parametrize(
    ("kind", "orientation"), [*(("JPEG", n) for n in range(1, 9)), ("PNG", 3), ("PNG", 6), ("WEBP", 5)]
)
def test_a_photo_is_turned_upright(kind: str, orientation: int) -> None:
    upright = m.photo((24, 16))
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # orientation -> the transposition that stores it so
    stored = upright.transpose(Image.Transpose(undo[orientation])) if orientation > 1 else upright
    losses: dict[str, dict[str, Any]] = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}
    data = m.saved(stored, kind, exif=m.exif(orientation), **losses.get(kind, {}))
    assert worst(pixels(data, replace(RAW, width=24, height=16)), upright) <= (3 if kind == "JPEG" else 0)


def test_scaling_while_decoding_respects_the_turn() -> None:
    tall = m.photo((600, 1600))
    data = m.saved(tall.transpose(Image.Transpose.ROTATE_90), "JPEG", quality=95, exif=m.exif(6))
    options = ImageOptions(width=300, height=800, resize="squash", format="raw")
    assert worst(pixels(data, options), tall.resize((300, 800), Image.Resampling.BOX)) <= 24


@pytest.mark.parametrize(
    ("orientation", "box"), [(1, (0, 3, 8, 5)), (6, (3, 0, 5, 8))], ids=["as it lies", "turned upright"]
)
def test_a_letterbox_is_centred_on_the_background(orientation: int, box: tuple[int, int, int, int]) -> None:
    data = m.saved(Image.new("RGB", (16, 4), (9, 9, 9)), "PNG", exif=m.exif(orientation))
    expected = flat((1, 2, 3))
    expected.paste((9, 9, 9), box)
    assert pixels(data, replace(RAW, resize="pad", background=(1, 2, 3))).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("size", "centre"), [((13, 8), (2, 0, 10, 8)), ((15, 8), (3, 0, 11, 8)), ((8, 15), (0, 3, 8, 11))], ids=str
)
def test_a_crop_without_scaling_is_the_centre_bit_for_bit(
    size: tuple[int, int], centre: tuple[int, int, int, int]
) -> None:
    picture = m.photo(size)
    stored = pixels(m.saved(picture, "PNG"), replace(RAW, resize="crop"))
    assert stored.tobytes() == picture.crop(centre).tobytes()


@pytest.mark.parametrize("resizer", ["simd", "pillow"])
def test_a_crop_takes_the_central_square(resizer: str) -> None:
    picture = Image.new("RGB", (32, 16), (255, 0, 0))
    picture.paste((0, 0, 255), (8, 0, 24, 16))
    options = replace(RAW, resize="crop", resizer=resizer)  # type: ignore[arg-type]
    covered = picture.resize((16, 8), Image.Resampling.BICUBIC).crop((4, 0, 12, 8))
    assert worst(pixels(m.saved(picture, "PNG"), options), covered) <= (8 if resizer == "simd" else 0)


@pytest.mark.parametrize(
    ("mode", "size"), [*((mode, (640, 480)) for mode in MODES), ("crop", (97, 61)), ("crop", (3100, 2300))], ids=str
)
def test_both_resizers_agree_within_a_few_levels(mode: ResizeMode, size: tuple[int, int]) -> None:
    data = m.saved(m.photo(size), "BMP")
    options = ImageOptions(height=64, width=64, resize=mode, format="raw")
    theirs = pixels(data, replace(options, resizer="pillow"))
    assert worst(pixels(data, options), theirs) <= 8  # at hard edges; mostly 2


@pytest.mark.parametrize("mode", MODES)
def test_scaling_while_decoding_never_goes_below_the_target(mode: ResizeMode) -> None:
    by_side = mode in ("shortest", "longest")
    for size, width in product([(447, 449), (448, 448), (900, 450), (451, 1900), (1792, 1800)], [224, 100]):
        options = ImageOptions(width=width, height=width if by_side else 224, resize=mode)
        planned = geometry_of(size, False, options)
        header = read_jpeg_header(m.saved(Image.new("RGB", size), "JPEG"))
        factor = decode.scale_jpeg(header, planned.content)
        if factor > 1:
            assert size[0] // factor >= planned.content[0] and size[1] // factor >= planned.content[1]
        else:
            assert size[0] < 2 * planned.content[0] or size[1] < 2 * planned.content[1]


def test_scaling_while_decoding_shows_the_same_scene() -> None:
    picture = m.photo((1000, 750))
    scaled = pixels(m.saved(picture, "JPEG", quality=98), ImageOptions(format="raw"))
    whole = pixels(m.saved(picture, "BMP"), ImageOptions(format="raw"))
    assert worst(scaled, whole) <= 24  # at the edge of the dark corner; a shift by a pixel would give over 60


def test_gray_is_the_luma_of_the_colours() -> None:
    data = m.saved(flat((200, 100, 50)), "PNG")
    assert pixels(data, replace(RAW, channels="gray")).tobytes() == flat((200, 100, 50)).convert("L").tobytes()


def test_the_gray_plane_of_a_jpeg_is_its_luma() -> None:
    data = m.saved(m.photo((8, 8)), "JPEG", quality=100, subsampling=0)
    stored = pixels(data, replace(RAW, channels="gray"))
    assert worst(stored, m.photo((8, 8)).convert("L")) <= 3


def test_the_first_frame_is_taken() -> None:
    still, other = flat((255, 0, 0)), flat((0, 0, 255))
    for kind in ("GIF", "PNG", "WEBP"):
        data = m.saved(still, kind, save_all=True, append_images=[other], duration=9, lossless=True)
        assert pixels(data).tobytes() == still.tobytes()


def gif(controls: bytes, behind: bytes = b"") -> bytes:
    """Pixels 0 and 1, 1 and 0. The palette of all frames is red, that of the first frame gray."""
    palette = bytes(level for level in range(4) for _ in range(3))
    frame = b"," + struct.pack("<HHHHB", 0, 0, 2, 2, 0x81) + palette
    head = b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0x81, 0, 0) + b"\xff\0\0" * 4
    return head + controls + frame + b"\2\3\x44\2\5\0" + behind + b";"


@pytest.mark.parametrize("transparent", [0, 1])
def test_a_gray_palette_of_the_first_frame_of_a_gif_holds(transparent: int) -> None:
    """Pillow puts the palette of all frames on such a frame while it loads, and then cannot convert it."""
    data = gif(b"!\xf9\4" + bytes([transparent, 0, 0, 3, 0]))
    assert pixels(data, replace(RAW, height=2, width=2)).tobytes() == bytes([0, 0, 0, *[1] * 6, 0, 0, 0])


def test_a_gif_that_is_damaged_behind_its_first_frame_is_read() -> None:
    assert pixels(gif(b"", b"!\xf9\1\0\0"), replace(RAW, height=2, width=2)).size == (2, 2)


def test_statistics_are_the_exact_sums_of_the_stored_pixels() -> None:
    picture = flat((10, 20, 30))
    picture.paste((255, 0, 1), (0, 0, 8, 2))
    expected = (64, (48 * 10 + 16 * 255, 48 * 20, 48 * 30 + 16), (48 * 100 + 16 * 65025, 48 * 400, 48 * 900 + 16))
    assert process_image(m.saved(picture, "PNG"), RAW, with_stats=True).stats == expected


def test_png_output_is_lossless_and_webp_and_jpeg_are_close() -> None:
    picture = m.photo((8, 8))
    data = m.saved(picture, "PNG")
    stored = {
        name: Image.open(io.BytesIO(process_image(data, replace(RAW, format=name)).data))
        for name in ("png", "webp", "jpeg")
    }
    assert {name: image.format for name, image in stored.items()} == {"png": "PNG", "webp": "WEBP", "jpeg": "JPEG"}
    assert stored["png"].tobytes() == picture.tobytes()
    assert worst(stored["jpeg"].resize((1, 1)), picture.resize((1, 1))) <= 3
    assert worst(stored["webp"].resize((1, 1)), picture.resize((1, 1))) <= 6
