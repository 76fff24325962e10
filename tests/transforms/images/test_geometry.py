from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.transforms.images.options import ImageOptions, ResizeMode
from shardfeed.transforms.images.pixels.geometry import Geometry, geometry_of

SIDES = st.integers(1, 20_000)
MODES: list[ResizeMode] = ["crop", "squash", "pad", "shortest", "longest"]


@pytest.mark.parametrize(
    ("mode", "source", "target", "expected"),
    [
        ("crop", (400, 300), (200, 200), Geometry((50.0, 0.0, 300.0, 300.0), (200, 200), (200, 200))),
        ("crop", (300, 501), (200, 100), Geometry((0.0, 175.5, 300.0, 150.0), (200, 100), (200, 100))),
        ("squash", (400, 300), (200, 200), Geometry((0.0, 0.0, 400.0, 300.0), (200, 200), (200, 200))),
        ("pad", (400, 300), (200, 200), Geometry((0.0, 0.0, 400.0, 300.0), (200, 150), (200, 200))),
        ("pad", (300, 400), (200, 200), Geometry((0.0, 0.0, 300.0, 400.0), (150, 200), (200, 200))),
        ("shortest", (400, 300), (150, 150), Geometry((0.0, 0.0, 400.0, 300.0), (200, 150), (200, 150))),
        ("longest", (400, 300), (200, 200), Geometry((0.0, 0.0, 400.0, 300.0), (200, 150), (200, 150))),
        ("longest", (400, 150), (100, 100), Geometry((0.0, 0.0, 400.0, 150.0), (100, 38), (100, 38))),
        ("longest", (1000, 1), (224, 224), Geometry((0.0, 0.0, 1000.0, 1.0), (224, 1), (224, 1))),
    ],
    ids=lambda value: str(value),
)
def test_a_source_is_cut_and_scaled_as_its_mode_says(
    mode: ResizeMode, source: tuple[int, int], target: tuple[int, int], expected: Geometry
) -> None:
    assert geometry_of(source, False, ImageOptions(resize=mode, width=target[0], height=target[1])) == expected


@pytest.mark.parametrize(("source", "enlarged"), [((201, 199), True), ((199, 201), True), ((200, 200), False)], ids=str)
def test_an_image_of_which_one_side_grows_is_enlarged(source: tuple[int, int], enlarged: bool) -> None:
    assert geometry_of(source, False, ImageOptions(resize="squash", width=200, height=200)).upscales is enlarged


def test_sides_are_swapped_for_a_source_that_lies_on_its_side() -> None:
    planned = geometry_of((400, 300), True, ImageOptions(resize="crop", width=100, height=200))
    assert planned == Geometry((0.0, 50.0, 400.0, 200.0), (200, 100), (100, 200))


@given(SIDES, SIDES, st.sampled_from(MODES), st.integers(1, 600), st.integers(1, 600), st.booleans())
def test_a_result_has_no_side_of_zero_and_its_box_lies_in_the_source(
    width: int, height: int, mode: ResizeMode, target_width: int, target_height: int, transposed: bool
) -> None:
    by_side = mode in ("shortest", "longest")
    options = ImageOptions(resize=mode, width=target_width, height=target_width if by_side else target_height)
    planned = geometry_of((width, height), transposed, options)
    left, top, box_width, box_height = planned.box
    assert min(*planned.content, *planned.output) >= 1
    assert left >= 0 and top >= 0 and box_width > 0 and box_height > 0
    assert left + box_width <= width and top + box_height <= height
    upright = planned.content[::-1] if transposed else planned.content
    assert upright[0] <= planned.output[0] and upright[1] <= planned.output[1]
    if not by_side:
        assert planned.output == (target_width, target_height)


@given(SIDES, SIDES, st.sampled_from(MODES[3:]), st.integers(1, 600))
def test_keeping_originals_never_enlarges_by_a_side(width: int, height: int, mode: ResizeMode, side: int) -> None:
    options = ImageOptions(resize=mode, width=side, height=side, keep_original=True)
    planned = geometry_of((width, height), False, options)
    known = min(width, height) if mode == "shortest" else max(width, height)
    if known <= side:
        assert planned.output == (width, height)
    else:
        assert planned == geometry_of((width, height), False, replace(options, keep_original=False))
