"""Deep verification of one record: the columns, their types, and the image that they describe."""

from __future__ import annotations

from typing import Any

from shardfeed.decoding import RecordProblem, image_decoder
from shardfeed.errors import clip
from shardfeed.format.example import decode_example, encode_example
from shardfeed.format.manifest import ImageInfo, Manifest

COLUMNS: dict[str, tuple[type, int]] = {
    "class": (int, 1),
    "image": (bytes, 1),
    "key": (bytes, 1),
    "label": (bytes, 1),
    "size": (int, 2),
}
"""Columns of every record: type and number of values. Others may stand beside them."""


class RecordCheck:
    """Checks records of one dataset; safe to share between threads."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._classes, self._image = [name.encode() for name in manifest.classes], manifest.image
        self._decode = image_decoder(manifest.image.format)

    def __call__(self, data: bytes) -> tuple[bytes, int, int, int]:
        """(key, class index, height, width) of a record that is in order.

        Raises:
            RecordProblem: it is not.
        """
        columns = _columns(data)
        (index,), (label,), (key,) = columns["class"], columns["label"], columns["key"]
        if not 0 <= index < len(self._classes):
            raise RecordProblem("class", f"0 to {len(self._classes) - 1}", str(index))
        if label != self._classes[index]:
            raise RecordProblem("label", f"{clip(self._classes[index])}, the name of class {index}", clip(label))
        if not key:
            raise RecordProblem("key", "a key", "none")
        height, width = columns["size"]
        _check_size(height, width, self._image)
        self._decode(columns["image"][0], (height, width, self._image.channels), None)
        return key, index, height, width


def _columns(data: bytes) -> dict[str, list[Any]]:
    try:
        columns = decode_example(data)
    except ValueError as error:
        raise RecordProblem("record", "a tf.train.Example", str(error)) from None
    if not columns.keys() >= COLUMNS.keys():
        raise RecordProblem("columns", ", ".join(COLUMNS), ", ".join(sorted(columns)))
    for name, (kind, count) in COLUMNS.items():
        values = columns[name]
        if len(values) != count or type(values[0]) is not kind:
            found = f"{len(values)} of {type(values[0]).__name__}" if values else "none"
            raise RecordProblem(f"column {name}", f"{count} of {kind.__name__}", found)
    # Of a column without values the type is not known, and so not its encoding.
    if all(columns.values()) and encode_example(columns) != data:
        raise RecordProblem("record", "the canonical encoding of its columns", "another encoding")
    return columns


def _check_size(height: int, width: int, info: ImageInfo) -> None:
    if height < 1 or width < 1 or height != (info.height or height) or width != (info.width or width):
        expected = f"{info.height or 'any height'} x {info.width or 'any width'} pixels"
        raise RecordProblem("size", expected, f"{height} x {width} pixels")
