"""Rows of a part without encoding images: records of given sizes, all else made up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef
from shardfeed.transforms.output.part_rows import FIX_BITS, PartRows, pack_row


def rows_of(sizes: Iterable[int], *, name: str = "", classes: Sequence[int] = (0,)) -> PartRows:
    """Rows of records of ``sizes`` bytes. ``name`` begins the keys; the ``classes`` take turns.

    Columns that can be null or empty are so in every second row.
    """
    rows, keys = [], []
    for number, size in enumerate(sizes):
        ref = ImageRef(
            number % 2, f"{name}{number}.jpg".encode(), Stat(size + 7, 10**18 + number, (None, 5)[number % 2])
        )
        fixes = (0, FIX_BITS["upscaled"] | FIX_BITS["alpha_composited"])[number % 2]
        rows.append(pack_row(size, classes[number % len(classes)], 8, 12 + number, fixes, ref))
        keys.append(ref.key)
    return PartRows(b"".join(rows), b"".join(keys))
