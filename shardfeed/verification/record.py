"""Deep verification of one record: the columns, their types, and the image that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardfeed.decoding import RecordProblem, image_decoder
from shardfeed.errors import clip
from shardfeed.format.columns import Column
from shardfeed.format.example import decode_example, encode_example
from shardfeed.format.hashing import hash64
from shardfeed.format.manifest import ImageInfo, Manifest

_OTHERS: dict[str, tuple[type, int | None]] = {"image": (bytes, 1), "key": (bytes, 1), "size": (int, 2)}
COLUMNS: dict[str, dict[str, tuple[type, int | None]]] = {
    "single": {"class": (int, 1), "label": (bytes, 1), **_OTHERS},
    "multi": {"class": (int, None), "label": (bytes, None), **_OTHERS},
    "none": _OTHERS,
}
"""Columns of every record by ``label_kind``: type and number of values, None for any number.

Those that the manifest declares stand beside them.
"""


_VALUES = {"bytes": bytes, "string": bytes, "int64": int, "bool": int, "float": float}


def value_hash(feature: bytes) -> int:
    """64 bits that stand for the value of a declared column; ``feature``: as the Example has it."""
    return hash64("column", 0, feature)


class RecordCheck:
    """Checks records of one dataset; safe to share between threads."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._classes, self._image = [name.encode() for name in manifest.classes], manifest.image
        self._decode = image_decoder(manifest.image.format)
        self._declared = [Column.from_raw(raw) for raw in manifest.columns]
        self._columns = COLUMNS[manifest.label_kind] | {
            column.name: (_VALUES[column.type], column.shape[0] if column.shape else 1) for column in self._declared
        }

    def __call__(self, data: bytes) -> tuple[bytes, tuple[int, ...], int, int, list[int]]:
        """(key, indexes of its classes, height, width, further) of a record that is in order.

        ``further``: ``value_hash`` of each declared column.

        Raises:
            RecordProblem: it is not.
        """
        columns = _columns(data, self._columns)
        (key,), indexes, labels = columns["key"], columns.get("class", []), columns.get("label", [])
        self._check_labels(indexes, labels)
        if not key:
            raise RecordProblem("key", "a key", "none")
        height, width = columns["size"]
        _check_size(height, width, self._image)
        self._decode(columns["image"][0], (height, width, self._image.channels), None)
        further = [value_hash(column.feature(columns[column.name])) for column in self._declared]
        return key, tuple(indexes), height, width, further

    def _check_labels(self, indexes: list[int], labels: list[bytes]) -> None:
        if len(indexes) != len(labels):
            raise RecordProblem("label", f"{len(indexes)} labels, as there are classes", str(len(labels)))
        if indexes != sorted(set(indexes)):
            raise RecordProblem("class", "classes in ascending order, each once", clip(str(indexes)))
        for index, label in zip(indexes, labels, strict=True):
            if not 0 <= index < len(self._classes):
                raise RecordProblem("class", f"0 to {len(self._classes) - 1}", str(index))
            if label != self._classes[index]:
                raise RecordProblem("label", f"{clip(self._classes[index])}, the name of class {index}", clip(label))


def _columns(data: bytes, wanted: Mapping[str, tuple[type, int | None]]) -> dict[str, list[Any]]:
    try:
        columns = decode_example(data)
    except ValueError as error:
        raise RecordProblem("record", "a tf.train.Example", str(error)) from None
    if not columns.keys() >= wanted.keys():
        raise RecordProblem("columns", ", ".join(sorted(wanted)), ", ".join(sorted(columns)))
    for name, (kind, count) in wanted.items():
        values = columns[name]
        if (count is not None and len(values) != count) or (values and type(values[0]) is not kind):
            found = f"{len(values)} of {type(values[0]).__name__}" if values else "none"
            raise RecordProblem(f"column {name}", f"{count or 'any number'} of {kind.__name__}", found)
    # Of a column without values the type is not known, and so not its encoding.
    if all(columns.values()) and encode_example(columns) != data:
        raise RecordProblem("record", "the canonical encoding of its columns", "another encoding")
    return columns


def _check_size(height: int, width: int, info: ImageInfo) -> None:
    if height < 1 or width < 1 or height != (info.height or height) or width != (info.width or width):
        expected = f"{info.height or 'any height'} x {info.width or 'any width'} pixels"
        raise RecordProblem("size", expected, f"{height} x {width} pixels")
