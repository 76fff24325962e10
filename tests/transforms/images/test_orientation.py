from __future__ import annotations

import pytest
from PIL.Image import Transpose

from shardfeed.transforms.images.pixels.orientation import exif_orientation, upright_turn
from tests.kit import makers as m


@pytest.mark.parametrize("kind", [3, 4], ids=["short", "long"])
@pytest.mark.parametrize("order", ["<", ">"], ids=["little-endian", "big-endian"])
def test_an_orientation_is_read_in_either_order_and_width(order: str, kind: int) -> None:
    assert [exif_orientation(m.exif(n, order, kind)) for n in range(1, 9)] == list(range(1, 9))


def test_the_prefix_of_jpeg_is_optional() -> None:
    assert exif_orientation(m.exif(6)[6:]) == 6


def test_each_counted_entry_is_looked_at_and_none_behind_them() -> None:
    block = m.exif(6)
    second = block[:16] + block[28:40] + block[16:28] + block[40:]
    assert exif_orientation(second) == 6
    assert exif_orientation(m.patched(second, 14, b"\0\1")) is None


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_is_none(orientation: int) -> None:
    assert exif_orientation(m.exif(orientation)) is None


def test_a_block_cut_anywhere_is_read_or_none() -> None:
    block = m.exif(6)
    assert {exif_orientation(block[:length]) for length in range(len(block))} == {None, 6}


def test_xmp_counts_where_exif_says_nothing() -> None:
    assert upright_turn({"xmp": m.xmp(8)}) is Transpose.ROTATE_90
    assert upright_turn({"exif": m.exif(3), "xmp": m.xmp(8)}) is Transpose.ROTATE_180


def test_the_hexadecimal_profile_of_a_png_counts() -> None:
    assert upright_turn({"Raw profile type exif": f"\nexif\n      40\n{m.exif(6).hex()}\n"}) is Transpose.ROTATE_270
    assert upright_turn({"Raw profile type exif": "\nexif\n 40\nno hexadecimal"}) is None
