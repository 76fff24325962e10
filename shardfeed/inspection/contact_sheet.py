"""A contact sheet: the first records of a split as thumbnails with class and key, to see with one's own eyes what was built.

One decision: the stored bytes are decoded, so crops, colours and orientation are what a model will see. Small images are
enlarged by whole factors without smoothing; large ones are reduced. An image that does not decode leaves a marked cell,
because a sheet is looked at exactly when something may be wrong.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from typing import TYPE_CHECKING

from shardfeed.arguments import positive
from shardfeed.dataset.first_records import StoredRecord, first_records
from shardfeed.dataset.info import info
from shardfeed.errors import UsageError, clip
from shardfeed.format.manifest import ImageInfo

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont
    from PIL.ImageFont import ImageFont as BitmapFont

    _Font = FreeTypeFont | BitmapFont

_Colour = tuple[int, int, int]

_CELL = 160  # pixels, the longest side of a thumbnail
_GAP = 12
_LABEL_SIZE, _KEY_SIZE, _TITLE_SIZE = 14, 11, 14  # pixels of text height
_CAPTION = 38  # pixels below a thumbnail: label and key
_BACKGROUND, _FRAME, _INK, _FAINT = (242, 242, 242), (214, 214, 214), (28, 28, 28), (104, 104, 104)
_ALARM = (160, 32, 32)
_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "Arial.ttf",
    "Helvetica.ttc",
)  # as Linux, Windows and macOS have them
_MAX_RECORDS = 1_000  # 40 rows of 25 are 8,000 pixels high; more is not looked at


def contact_sheet(directory: str | os.PathLike[str], split: str, n: int = 25, columns: int = 5) -> bytes:
    """PNG of the first ``n`` records of ``split`` (at most 1,000), ``columns`` in a row.

    Raises:
        DatasetError: no dataset in ``directory``, or a damaged record.
        UsageError: no such split, ``n`` or ``columns`` out of range, or Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise UsageError(
            "a contact sheet is drawn with Pillow, which is not installed. Install it with: pip install Pillow"
        ) from None
    if positive("n", n) > _MAX_RECORDS:
        raise UsageError(f"n={n}: a contact sheet shows at most {_MAX_RECORDS} records.")
    dataset = info(directory)
    records = first_records(directory, split, n)
    columns = min(positive("columns", columns), len(records))
    rows = math.ceil(len(records) / columns)
    top = _GAP + _TITLE_SIZE + _GAP
    size = (_GAP + columns * (_CELL + _GAP), top + rows * (_CELL + _CAPTION + _GAP))
    sheet = Image.new("RGB", size, _BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    title = f"{split}: {len(records):,} of {dataset.splits[split].num_records:,} records"
    _text(draw, (_GAP, _GAP - 2), title, _font(_TITLE_SIZE), _INK, size[0] - 2 * _GAP)
    fonts = _font(_LABEL_SIZE), _font(_KEY_SIZE)
    for number, record in enumerate(records):
        row, column = divmod(number, columns)
        corner = (_GAP + column * (_CELL + _GAP), top + row * (_CELL + _CAPTION + _GAP))
        _draw_record(sheet, draw, corner, record, dataset.manifest.image, fonts)
    out = io.BytesIO()
    sheet.save(out, "PNG")
    return out.getvalue()


def _draw_record(
    sheet: Image, draw: ImageDraw, corner: tuple[int, int], record: StoredRecord, image: ImageInfo,
    fonts: tuple[_Font, _Font],
) -> None:  # fmt: skip
    left, top = corner
    draw.rectangle((left, top, left + _CELL - 1, top + _CELL - 1), fill=_FRAME)
    picture = _picture(record, image)
    if picture is None:
        draw.rectangle((left, top, left + _CELL - 1, top + _CELL - 1), outline=_ALARM, width=2)
        middle = (left + _CELL // 2, top + _CELL // 2)
        draw.text(middle, "does not decode", fill=_ALARM, font=fonts[0], anchor="mm")
    else:
        thumbnail = _fit(picture)
        sheet.paste(thumbnail, (left + (_CELL - thumbnail.width) // 2, top + (_CELL - thumbnail.height) // 2))
    # The index tells classes apart whose names the font cannot show.
    label = _written(f"{record.class_index} {clip(record.label)}", fonts[0])
    _text(draw, (left, top + _CELL + 4), label, fonts[0], _INK, _CELL)
    key = _shortened(
        draw, _written(clip(record.key), fonts[1]), fonts[1], _CELL, keep_end=True
    )  # a key's end tells most
    draw.text((left, top + _CELL + 22), key, fill=_FAINT, font=fonts[1])


def _font(size: int) -> _Font:
    """A font of the system's, for names in most scripts; else Pillow's own, which has ASCII alone."""
    from PIL import ImageFont

    for name in _FONTS:
        with contextlib.suppress(OSError):
            return ImageFont.truetype(name, size)
    return ImageFont.load_default(size)


def _written(text: str, font: _Font) -> str:
    """``text`` as ``font`` can show it: in Pillow's own every other letter would be the same empty box."""
    is_the_systems = isinstance(getattr(font, "path", None), str)
    return text if is_the_systems else text.encode("ascii", "backslashreplace").decode()


def _picture(record: StoredRecord, image: ImageInfo) -> Image | None:
    """The stored pixels in RGB; None where the bytes are no such image."""
    from PIL import Image

    try:
        if image.format == "raw":
            mode = "L" if image.channels == 1 else "RGB"
            return Image.frombytes(mode, (record.width, record.height), record.image).convert("RGB")
        with Image.open(io.BytesIO(record.image), formats=[image.format.upper()]) as picture:
            return picture.convert("RGB")
    except Exception:  # Pillow raises nearly anything on damaged data; the cell shows it
        return None


def _fit(picture: Image) -> Image:
    from PIL.Image import Resampling

    scale = _CELL / max(picture.size)
    if scale >= 1:
        factor = int(scale)
        return picture.resize((picture.width * factor, picture.height * factor), Resampling.NEAREST)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Resampling.LANCZOS)


def _text(draw: ImageDraw, place: tuple[int, int], text: str, font: _Font, colour: _Colour, width: int) -> None:
    draw.text(place, _shortened(draw, text, font, width, keep_end=False), fill=colour, font=font)


def _shortened(draw: ImageDraw, text: str, font: _Font, width: int, *, keep_end: bool) -> str:
    """The longest beginning (or end) of ``text`` that fits ``width`` pixels, with an ellipsis where something is cut."""
    if draw.textlength(text, font) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        shown = "…" + text[-middle:] if keep_end else text[:middle] + "…"
        low, high = (middle, high) if draw.textlength(shown, font) <= width else (low, middle - 1)
    return "…" + text[len(text) - low :] if keep_end else text[:low] + "…"
