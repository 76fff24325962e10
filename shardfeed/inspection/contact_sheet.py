"""A contact sheet: records as thumbnails with class and key.

The stored bytes are decoded, so crops, colours and orientation are what a model will see. An image
that does not decode leaves a marked cell, because people look at a sheet exactly when something may
be wrong.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont, ImageOps

from shardfeed.errors import clip
from shardfeed.format.manifest import ImageInfo
from shardfeed.inspection.first_records import StoredRecord

_CELL = 160  # pixels, the longest side of a thumbnail
_GAP = 12
_TOP = 38  # pixels of the title, above the thumbnails
_CAPTION = 38  # pixels below a thumbnail: label and key
_LABEL_LETTERS, _KEY_LETTERS = 21, 25  # that fit below a thumbnail in most names; the cell's edge cuts wider ones
_BACKGROUND, _FRAME, _INK, _FAINT = (242, 242, 242), (214, 214, 214), (28, 28, 28), (104, 104, 104)
_ALARM = (160, 32, 32)
_COLUMNS = 5


def draw_sheet(records: Sequence[StoredRecord], title: str, image: ImageInfo, kind: str = "PNG") -> bytes:
    """A sheet of ``records``, at least one, with a ``title`` above; ``kind``: PNG or JPEG."""
    columns = min(_COLUMNS, len(records))
    rows = math.ceil(len(records) / columns)
    width, height = _CELL + _GAP, _CELL + _CAPTION + _GAP
    sheet = Image.new("RGB", (_GAP + columns * width, _TOP + rows * height), _BACKGROUND)
    ImageDraw.Draw(sheet).text((_GAP, _GAP - 2), _shown(title), _INK, ImageFont.load_default(14))
    for number, record in enumerate(records):
        row, column = divmod(number, columns)
        sheet.paste(_cell(record, image), (_GAP + column * width, _TOP + row * height))
    out = io.BytesIO()
    sheet.save(out, kind, quality=90)
    return out.getvalue()


def _cell(record: StoredRecord, image: ImageInfo) -> Image.Image:
    """A thumbnail with its label and key below."""
    large, small = ImageFont.load_default(14), ImageFont.load_default(11)
    cell = Image.new("RGB", (_CELL, _CELL + _CAPTION), _BACKGROUND)
    draw = ImageDraw.Draw(cell)
    picture = _picture(record, image)
    if picture is None:
        draw.rectangle((0, 0, _CELL - 1, _CELL - 1), _FRAME, _ALARM, width=2)
        draw.text((_CELL // 2, _CELL // 2), "does not decode", _ALARM, large, anchor="mm")
    else:
        draw.rectangle((0, 0, _CELL - 1, _CELL - 1), _FRAME)
        side = max(picture.size)
        if side < _CELL:  # small pixels stay visible
            picture = ImageOps.scale(picture, _CELL // side, Image.Resampling.NEAREST)
        else:
            picture = ImageOps.contain(picture, (_CELL, _CELL), Image.Resampling.LANCZOS)
        cell.paste(picture, ((_CELL - picture.width) // 2, (_CELL - picture.height) // 2))
    label, key = _shown(record.caption), _shown(record.key)
    if len(label) > _LABEL_LETTERS:
        label = label[: _LABEL_LETTERS - 1] + "…"
    if len(key) > _KEY_LETTERS:  # a key's end tells most
        key = "…" + key[1 - _KEY_LETTERS :]
    draw.text((0, _CELL + 4), label, _INK, large)
    draw.text((0, _CELL + 22), key, _FAINT, small)
    return cell


def _shown(text: str | bytes) -> str:
    """``text`` in ASCII: any other letter would be an empty box in Pillow's own font."""
    return clip(text).encode("ascii", "backslashreplace").decode()


def _picture(record: StoredRecord, image: ImageInfo) -> Image.Image | None:
    """The stored pixels in RGB; None if the bytes are no such image."""
    try:
        if image.format == "raw":
            mode = "L" if image.channels == 1 else "RGB"
            return Image.frombytes(mode, (record.width, record.height), record.image).convert("RGB")
        with Image.open(io.BytesIO(record.image), formats=[image.format.upper()]) as picture:
            return picture.convert("RGB")
    except Exception:  # Pillow raises nearly anything on damaged data; the cell shows it
        return None
