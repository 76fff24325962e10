"""A framed record to its image, class, key and size, in a few µs if our encoder wrote it.

The encoder's layout is fixed but for the lengths, and a dataset has few classes, sizes and lengths
of keys. So all but the image is compared with bytes that were seen before, and nothing is parsed
twice. A record of another encoder, or with further columns, is parsed in full, which takes ten
times as long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from google_crc32c import extend, value

from shardfeed.arrays.any_record import RecordForm
from shardfeed.arrays.parsing import column_values
from shardfeed.decoding import RecordProblem
from shardfeed.format.columns import Column
from shardfeed.format.example import decode_example, encode_feature, example_head, feature_head, join_features
from shardfeed.format.tfrecord import CRC_BYTES, HEADER_BYTES, OVERHEAD, frame_footer, frame_header, unframe

_known = lru_cache(1 << 14)  # of each kind; a few megabytes in all
_ENTRY = re.compile(rb"\n([\x80-\xff]{0,4}[\x00-\x7f])")
_ENTRY_BYTES = 6  # at most: tag and length of an entry


Fields = tuple[bytes, int, str, tuple[int, int] | None]
"""Image, label, key, and stored height and width; None if the record does not say them."""


class FieldParser:
    """Parses records of a dataset of ``classes``. Safe to share between threads.

    ``label_kind``: as in the manifest. ``columns``: all extra columns of the dataset.
    """

    def __init__(self, classes: tuple[str, ...], label_kind: str = "single", columns: tuple[Column, ...] = ()) -> None:
        self.classes, self.label_kind, self.columns = classes, label_kind, columns
        self.plain = label_kind == "single" and not columns
        self._form = RecordForm(label_kind, len(classes))
        self._by_class: dict[bytes, tuple[int, bytes]] = {}  # entry "class": its index, entry "label"

    def __reduce__(self) -> tuple[type[FieldParser], tuple[tuple[str, ...], str, tuple[Column, ...]]]:
        return FieldParser, (self.classes, self.label_kind, self.columns)

    def everything(self, framed: bytes) -> tuple[dict[str, Any], tuple[int, int] | None] | None:
        """All features by name as ``records`` gives them, and the stored height and width.

        None if the frame's length or a crc is not right. Lists of numbers are arrays, those of
        texts lists. Without labels there is no label.

        Raises:
            RecordProblem: the record is not one of a build.
        """
        if (data := unframe(framed)) is None:
            return None
        try:
            found = decode_example(data)
            (image,), (key,) = column_values(found, "image", bytes), column_values(found, "key", bytes)
            item: dict[str, Any] = {"image": image}
            if self.label_kind != "none":
                item["label"] = self._form.label(found)
            item["key"] = key.decode()
            height, width = column_values(found, "size", int, 2)
            for column in self.columns:
                item[column.name] = _shown(column, found.get(column.name, []))
        except RecordProblem:
            raise
        except ValueError as error:
            raise RecordProblem("record", "a tf.train.Example of a build", str(error)) from None
        return item, (height, width)

    def __call__(self, framed: bytes) -> Fields | None:
        """The fields of a framed record; None if its length or a crc is not right.

        Raises:
            RecordProblem: the record is not one of a build, or of an unknown class.
        """
        try:
            fields = self.known(framed)
            if fields is None and (data := unframe(framed)) is not None:
                fields = self.parsed(data)
            return fields
        except RecordProblem:
            raise
        except ValueError as error:
            raise RecordProblem("record", "a tf.train.Example of a build", str(error)) from None

    def known(self, framed: bytes) -> Fields | None:
        """Of a whole record that our encoder wrote: five columns, all lengths as they must be."""
        try:
            head = _frame_head(len(framed))
            at, end = len(head), len(framed) - CRC_BYTES
            class_entry = framed[at : at + 2 + framed[at + 1]]
            label, label_entry = self._by_class.get(class_entry) or self._class_of(class_entry)
            at += len(class_entry)
            image_head, image_bytes = _image_head(framed[at : at + _ENTRY_BYTES])
            start = at + len(image_head)
            stop = start + image_bytes
            image, rest = framed[start:stop], framed[stop:end]
            place = rest.rindex(label_entry)
            key_head, size = _key_head(place), _size(rest[place + len(label_entry) :])
        except ValueError:
            return None
        if not (
            framed.startswith(head)
            and framed.startswith(image_head, at)
            and rest.startswith(key_head)
            and framed.endswith(frame_footer(extend(extend(value(framed[HEADER_BYTES:start]), image), rest)))
        ):
            return None
        return image, label, rest[len(key_head) : place].decode(), size

    def parsed(self, data: bytes) -> Fields:
        """Of the data of a record of any encoder."""
        columns = decode_example(data)
        (image,), (label,), (key,) = (
            column_values(columns, *of) for of in (("image", bytes), ("class", int), ("key", bytes))
        )
        if not 0 <= label < len(self.classes):
            raise RecordProblem("class", f"0 to {len(self.classes) - 1}", str(label))
        height, width = column_values(columns, "size", int, 2) if "size" in columns else (0, 0)
        return image, label, key.decode(), (height, width) if height > 0 and width > 0 else None

    def _class_of(self, entry: bytes) -> tuple[int, bytes]:
        """Class index and entry of its name, for ``_by_class``; ValueError for another form."""
        (label,) = column_values(decode_example(join_features([entry])), "class", int)
        if not 0 <= label < len(self.classes) or encode_feature("class", label) != entry:
            raise ValueError(entry)
        known = self._by_class[entry] = label, encode_feature("label", self.classes[label].encode())
        return known


def _shown(column: Column, feature: list[Any]) -> Any:
    if column.shape != (None,) and len(feature) != (column.shape or (1,))[0]:
        raise ValueError(f"column {column.name}: {len(feature)} values")
    value = column.value(feature)
    if not column.shape or column.type in ("bytes", "string"):
        return value
    return np.array(value, {"float": np.float32, "int64": np.int64, "bool": np.bool_}[column.type])


# Each of these raises ValueError if nothing fits, which is not remembered.


@_known
def _frame_head(size: int) -> bytes:
    """What comes before the entries in a frame of ``size`` bytes."""
    head = _fitting(example_head, size - OVERHEAD)
    return frame_header(size - OVERHEAD) + head


@_known
def _image_head(begin: bytes) -> tuple[bytes, int]:
    """Of an entry of an image that begins so: what comes before the image, and its bytes."""
    found = _ENTRY.match(begin)
    total = 0 if found is None else found.end() + _varint(found[1])
    head = _fitting(lambda size: feature_head("image", size), total)
    return head, total - len(head)


@_known
def _key_head(total: int) -> bytes:
    """What comes before the key in an entry of ``total`` bytes."""
    return _fitting(lambda size: feature_head("key", size), total)


@_known
def _size(entry: bytes) -> tuple[int, int]:
    """Height and width from the entry "size"."""
    height, width = column_values(decode_example(join_features([entry])), "size", int, 2)
    if min(height, width) < 1 or encode_feature("size", [height, width]) != entry:
        raise ValueError(entry)
    return height, width


def _fitting(head_for: Callable[[int], bytes], total: int) -> bytes:
    """The head for as many bytes as make up ``total`` with it."""
    size = max(0, total - len(head_for(total)))
    while len(head := head_for(size)) + size < total:
        size += 1
    if len(head) + size > total:
        raise ValueError(total)
    return head


def _varint(digits: bytes) -> int:
    return sum((digit & 0x7F) << 7 * place for place, digit in enumerate(digits))
