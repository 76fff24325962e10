from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shardfeed.errors import UsageError
from shardfeed.format.manifest import ImageInfo
from shardfeed.inspection.contact_sheet import contact_sheet
from tests.kit.datasets import write_dataset
from tests.kit.tiny import Tiny, columns, tiny

CELL, GAP, TOP, CAPTION = 160, 12, 38, 38


def cell(sheet: Image.Image, number: int, columns: int) -> np.ndarray:
    """Pixels of the ``number``-th thumbnail's cell."""
    row, column = divmod(number, columns)
    left, top = GAP + column * (CELL + GAP), TOP + row * (CELL + CAPTION + GAP)
    return np.asarray(sheet.crop((left, top, left + CELL, top + CELL)))


def caption(sheet: Image.Image, number: int, columns: int) -> np.ndarray:
    """Pixels below it, with the gap to the right."""
    row, column = divmod(number, columns)
    left, top = GAP + column * (CELL + GAP), TOP + CELL + row * (CELL + CAPTION + GAP)
    return np.asarray(sheet.crop((left, top, left + CELL + GAP, top + CAPTION)))


def open_sheet(data: bytes) -> Image.Image:
    sheet = Image.open(io.BytesIO(data))
    assert (sheet.format, sheet.mode) == ("PNG", "RGB")
    return sheet


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp", "raw"])
@pytest.mark.parametrize("channels", [1, 3], ids=["gray", "rgb"])
@pytest.mark.parametrize("size", [(8, 12), None], ids=["one size", "varying sizes"])
def test_every_format_shows_the_stored_pixels_in_order(
    tmp_path: Path, image_format: str, channels: int, size: tuple[int, int] | None
) -> None:
    written = write_dataset(tmp_path, image_format=image_format, channels=channels, size=size)
    sheet = open_sheet(contact_sheet(tmp_path, "train", 6, 3))
    assert sheet.size == (GAP + 3 * (CELL + GAP), TOP + 2 * (CELL + CAPTION + GAP))
    for number, record in enumerate(written.records["train"][:6]):
        height, width = record.pixels.shape[:2]
        factor = CELL // max(height, width)
        top, left = (CELL - height * factor) // 2, (CELL - width * factor) // 2
        shown = cell(sheet, number, 3)[top : top + height * factor : factor, left : left + width * factor : factor]
        tolerance = 0 if image_format in ("png", "raw") else 40  # lossy codecs on a few pixels with sub-sampled colour
        assert np.abs(shown.astype(int) - record.pixels).max() <= tolerance


def test_a_large_image_is_reduced_to_its_cell(tmp_path: Path) -> None:
    rows = [columns(0, height=300, width=900, format="png")]
    Tiny({"train": [rows]}, image=ImageInfo(300, 900, 3, "png", (1.0,) * 3, (1.0,) * 3)).write(tmp_path / "out")
    shown = cell(open_sheet(contact_sheet(tmp_path / "out", "train", 1, 1)), 0, 1)
    frame = (214, 214, 214)
    assert {tuple(map(int, shown[y, 80])) == frame for y in (0, 52, 107, 159)} == {True}
    assert {tuple(map(int, shown[y, 80])) == frame for y in (54, 80, 105)} == {False}


def test_fewer_records_than_asked_for_make_a_smaller_sheet(tmp_path: Path) -> None:
    tiny().write(tmp_path / "out")
    sheet = open_sheet(contact_sheet(tmp_path / "out", "test", 25, 5))
    assert sheet.size == (GAP + 4 * (CELL + GAP), TOP + CELL + CAPTION + GAP)


def test_the_same_dataset_gives_the_same_sheet(tmp_path: Path) -> None:
    tiny().write(tmp_path / "out")
    assert contact_sheet(tmp_path / "out", "train") == contact_sheet(tmp_path / "out", "train")


def test_captions_differ_by_label_and_key_and_stay_under_their_image(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [columns(number) for number in (0, 3, 1)]
    rows[0]["key"] = rows[1]["key"] = b"daisy/" + b"a very long folder/" * 20 + b"photo.jpg"
    Tiny({"train": [rows]}).write(tmp_path / "out")
    sheet = open_sheet(contact_sheet(tmp_path / "out", "train", 3, 3))
    first, second, third = (caption(sheet, number, 3) for number in range(3))
    assert (first == second).all()
    assert (first[:20] != third[:20]).any(), "label"
    assert (first[20:] != third[20:]).any(), "key"
    for shown in (first, second, third):
        assert (shown[:, CELL:] == 242).all(), "the gap beside a caption is empty"


def test_of_a_long_key_the_end_is_shown_and_of_a_long_label_the_beginning(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [columns(number) for number in (0, 3, 6, 9)]
    rows[0]["key"], rows[1]["key"] = b"daisy/" + b"folder/" * 20 + b"1.jpg", b"daisy/" + b"folder/" * 20 + b"2.jpg"
    rows[2]["key"], rows[3]["key"] = b"1/" + b"folder/" * 20 + b"9.jpg", b"2/" + b"folder/" * 20 + b"9.jpg"
    rows[2]["label"], rows[3]["label"] = b"label " * 20 + b"1", b"label " * 20 + b"2"
    dataset = Tiny({"train": [rows]}, class_counts={"train": {"daisy": 4, "rose": 0, "tulip": 0}})
    dataset.write(tmp_path / "out")
    sheet = open_sheet(contact_sheet(tmp_path / "out", "train", 4, 4))
    one, other, third, fourth = (caption(sheet, number, 4) for number in range(4))
    assert (one != other).any()
    assert (third == fourth).all()


@pytest.mark.parametrize(("fonts", "labels"), [(None, ("", "")), ((), ("日", "本"))], ids=["by index", "Pillow's font"])
def test_classes_are_told_apart_whatever_the_font_can_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fonts: tuple[str, ...] | None, labels: tuple[str, str]
) -> None:
    if fonts is not None:
        monkeypatch.setattr("shardfeed.inspection.contact_sheet._FONTS", fonts)
    rows: list[dict[str, Any]] = [columns(number) for number in (0, 3, 1 if fonts is None else 6)]
    rows[0]["label"], rows[2]["label"] = (label.encode() for label in labels)
    rows[1]["label"] = rows[0]["label"]
    daisies = 2 if fonts is None else 3
    dataset = Tiny({"train": [rows]}, class_counts={"train": {"daisy": daisies, "rose": 3 - daisies, "tulip": 0}})
    dataset.write(tmp_path / "out")
    sheet = open_sheet(contact_sheet(tmp_path / "out", "train", 3, 3))
    first, twin, other = (caption(sheet, number, 3)[:20] for number in range(3))
    assert (first == twin).all() and (first != other).any()


def test_an_image_that_does_not_decode_leaves_a_marked_cell(tmp_path: Path) -> None:
    rows = [columns(number) for number in range(3)]
    rows[1]["image"] = b"no image"
    Tiny({"train": [rows]}).write(tmp_path / "out")
    sheet = open_sheet(contact_sheet(tmp_path / "out", "train", 3, 3))
    assert [tuple(map(int, cell(sheet, number, 3)[0, 0])) for number in range(3)] == [
        (214, 214, 214), (160, 32, 32), (214, 214, 214),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n=0: expected an integer of at least 1"),
        ({"n": 1001}, "n=1001: a contact sheet shows at most 1000 records"),
        ({"columns": 0}, "columns=0: expected an integer of at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path: Path, options: dict[str, int], message: str) -> None:
    tiny().write(tmp_path / "out")
    with pytest.raises(UsageError, match=message):
        contact_sheet(tmp_path / "out", "train", **options)


def test_without_pillow_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny().write(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UsageError, match="pip install Pillow"):
        contact_sheet(tmp_path / "out", "train")
