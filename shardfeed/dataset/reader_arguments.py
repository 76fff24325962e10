"""Arguments of ``load`` and ``array_batches`` that depend on the dataset or its store."""

from __future__ import annotations

import os

from shardfeed import storage
from shardfeed.arguments import height_width, unexpected
from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import UsageError, clip
from shardfeed.runtime import memory


def shown_size(found: DatasetInfo, image_size: object) -> tuple[int, int]:
    """Height and width of the images that a reader hands out.

    Raises:
        UsageError: a wrong ``image_size``, or None for images of varying size.
    """
    if image_size is not None:
        return height_width("image_size", image_size)
    height, width, _ = found.image_shape
    if height is None or width is None:
        raise UsageError(
            f"the images of the dataset at {clip(found.url)} vary in size, and a batch needs one: pass image_size=, for "
            "example image_size=224 with crop='center', or build the dataset with a fixed size."
        )
    return height, width


def cache_place(value: object) -> str | None:
    """The argument ``cache``: None, "decoded" or a local folder.

    Raises:
        UsageError: it is something else, or a name that may be a slip for "decoded".
    """
    if value is None or value == "decoded":
        return value
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or storage.is_remote(os.fspath(value)):
        raise unexpected("cache", value, "None, 'decoded' or a local folder for copies of the shards")
    path = os.path.expanduser(os.fspath(value))
    if value == os.path.basename(value) and not os.path.exists(path):  # "memory" and "Decoded" mean no folder
        raise UsageError(
            f"cache={clip(repr(value))}: expected 'decoded' or a folder, and there is no folder of this name. For a new one, "
            f"write './{clip(value)}'."
        )
    return os.fspath(value)


def check_decoded_fits(size: int | None, records: int) -> None:
    """Check ``cache="decoded"`` for images of ``size`` bytes; None = they vary, and pass.

    Raises:
        UsageError: they need more memory than this process may use.
    """
    most = memory()
    if size is not None and most is not None and size * records > most:
        raise UsageError(
            f"cache='decoded': {records:,} images of {size:,} bytes are {size * records:,} bytes, this process may "
            f"use {most:,}. Leave cache out, or pass a folder, for a local copy of the shards."
        )
