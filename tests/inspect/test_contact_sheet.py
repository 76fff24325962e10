from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardfeed
from shardfeed.cli.main import main
from shardfeed.inspection.contact_sheet import draw_sheet
from shardfeed.inspection.first_records import first_records
from tests.kit.datasets import write_dataset
from tests.verify.damage import columns, rewrite

CELL, GAP, TOP, CAPTION = 160, 12, 38, 38


def contact_sheet(folder: Path, split: str, n: int = 25) -> bytes:
    """A sheet of the first ``n`` records, as ``inspect --sheet`` draws it."""
    dataset = shardfeed.info(folder)
    return draw_sheet(first_records(dataset, split, n), split, dataset.manifest.image)


def cell(sheet: Image.Image, number: int, columns: int) -> np.ndarray:
    """Pixels of the ``number``-th thumbnail's cell."""
    row, column = divmod(number, columns)
    left, top = GAP + column * (CELL + GAP), TOP + row * (CELL + CAPTION + GAP)
    return np.asarray(sheet.crop((left, top, left + CELL, top + CELL)))


def caption(sheet: Image.Image, number: int, columns: int) -> np.ndarray:
    """Pixels below it."""
    row, column = divmod(number, columns)
    left, top = GAP + column * (CELL + GAP), TOP + CELL + row * (CELL + CAPTION + GAP)
    return np.asarray(sheet.crop((left, top, left + CELL, top + CAPTION)))


def open_sheet(data: bytes) -> Image.Image:
    sheet = Image.open(io.BytesIO(data))
    assert (sheet.format, sheet.mode) == ("PNG", "RGB")
    return sheet


@pytest.mark.parametrize(
    ("image_format", "channels", "size"),
    [("jpeg", 3, (8, 12)), ("png", 1, None), ("webp", 3, None), ("raw", 3, (8, 12)), ("raw", 1, None)],
)
def test_every_format_shows_the_stored_pixels_in_order(
    tmp_path: Path, image_format: str, channels: int, size: tuple[int, int] | None
) -> None:
    written = write_dataset(tmp_path, image_format=image_format, channels=channels, size=size)
    sheet = open_sheet(contact_sheet(tmp_path, "train", 6))
    assert sheet.size == (GAP + 5 * (CELL + GAP), TOP + 2 * (CELL + CAPTION + GAP))
    for number, record in enumerate(written.records["train"][:6]):
        height, width = record.pixels.shape[:2]
        factor = CELL // max(height, width)
        top, left = (CELL - height * factor) // 2, (CELL - width * factor) // 2
        shown = cell(sheet, number, 5)[top : top + height * factor : factor, left : left + width * factor : factor]
        tolerance = 0 if image_format in ("png", "raw") else 40  # lossy codecs on a few pixels with sub-sampled colour
        assert np.abs(shown.astype(int) - record.pixels).max() <= tolerance


def test_a_large_image_is_reduced_to_its_cell(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"train": 1}, image_format="png", size=(300, 900), classes=("a",))
    shown = cell(open_sheet(contact_sheet(tmp_path, "train", 1)), 0, 1)
    frame = (214, 214, 214)
    assert {tuple(map(int, shown[y, 80])) == frame for y in (0, 52, 107, 159)} == {True}
    assert {tuple(map(int, shown[y, 80])) == frame for y in (54, 80, 105)} == {False}


def test_fewer_records_than_asked_for_make_a_smaller_sheet(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"test": 4})
    sheet = open_sheet(contact_sheet(tmp_path, "test", 25))
    assert sheet.size == (GAP + 4 * (CELL + GAP), TOP + CELL + CAPTION + GAP)


def test_the_same_dataset_gives_the_same_sheet(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    assert contact_sheet(tmp_path, "train") == contact_sheet(tmp_path, "train")


def captions(tmp_path: Path, *named: dict[str, Any]) -> list[np.ndarray]:
    """Captions of records of one class, with other columns each."""
    write_dataset(tmp_path, splits={"train": len(named)}, classes=("a",), shards=1)
    name = "train-00000-of-00001.tfrecord"
    rows = [row | {"key": b"key"} | other for row, other in zip(columns(tmp_path, name), named, strict=True)]
    rewrite(tmp_path, name, rows)
    sheet = open_sheet(contact_sheet(tmp_path, "train", len(named)))
    return [caption(sheet, number, len(named)) for number in range(len(named))]


def test_captions_show_the_class_above_the_key(tmp_path: Path) -> None:
    first, same, label, index, key = captions(tmp_path, {}, {}, {"label": b"b"}, {"class": 1}, {"key": b"other"})
    assert (first == same).all()
    assert (first[:20] != label[:20]).any() and (first[20:] == label[20:]).all()
    assert (first[:20] != index[:20]).any() and (first[20:] == index[20:]).all()
    assert (first[:20] == key[:20]).all() and (first[20:] != key[20:]).any()


def test_of_a_long_key_the_end_is_shown_and_of_a_long_label_the_beginning(tmp_path: Path) -> None:
    long = b"folder/" * 20
    shown = captions(
        tmp_path,
        *({"key": b"daisy/" + long + end} for end in (b"1.jpg", b"2.jpg")),
        *({"key": begin + long + b"9.jpg", "label": b"label " * 20 + begin} for begin in (b"1", b"2")),
    )
    assert (shown[0] != shown[1]).any()
    assert (shown[2] == shown[3]).all()


def test_letters_that_the_font_lacks_are_escaped(tmp_path: Path) -> None:
    one, other, escaped = captions(tmp_path, *({"label": label.encode()} for label in ("日", "本", "\\u65e5")))
    assert (one != other).any()
    assert (one == escaped).all()


def test_an_image_that_does_not_decode_leaves_a_marked_cell(tmp_path: Path) -> None:
    write_dataset(tmp_path, splits={"train": 3}, shards=1)
    name = "train-00000-of-00001.tfrecord"
    rows = columns(tmp_path, name)
    rows[1]["image"] = b"no image"
    rewrite(tmp_path, name, rows)
    sheet = open_sheet(contact_sheet(tmp_path, "train", 3))
    marked = [tuple(map(int, cell(sheet, number, 3)[0, 0])) == (160, 32, 32) for number in range(3)]
    assert marked == [False, True, False]


def test_more_records_than_a_sheet_takes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(tmp_path / "out")
    sheet = tmp_path / "sheet.png"
    assert main(["inspect", str(tmp_path / "out"), "-n", "1001", "--sheet", str(sheet)]) == 2
    assert "-n 1001: a contact sheet shows at most 1,000 records" in capsys.readouterr().err
    assert not sheet.exists()
