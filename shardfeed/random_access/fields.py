"""A framed record to its image, class, key and size, in a few µs if our encoder wrote it.

The encoder's layout is fixed but for the lengths, and a dataset has few classes, sizes and lengths
of keys. So all but the image is compared with bytes that were seen before, and nothing is parsed
twice. A record of another encoder, or with further columns, is parsed in full, which takes ten
times as long.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from shardfeed.arrays.parsing import column_values
from shardfeed.decoding import RecordProblem
from shardfeed.format.example import decode_example, encode_feature, feature_head, join_features
from shardfeed.format.tfrecord import CRC_BYTES, HEADER_BYTES, is_frame, unframe

_MOST_KNOWN = 1 << 16  # sizes of images; a dataset of one size has one
_MOST_HEAD = 32  # bytes before a key in its entry, with lengths of five bytes each

_VARINT = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
# Example { Features { the entry of "class", the entry of "image" { feature { list { value …
_HEAD = re.compile(
    rb"\n(V)(\n.\n\x05class\x12.\x1a.\n[\x01-\x05]V)\n(V)\n\x05image\x12(V)\n(V)\n(V)".replace(b"V", _VARINT), re.DOTALL
)


class Fields(NamedTuple):
    """What a record holds. ``size``: stored height and width; None if the record does not say."""

    image: bytes
    label: int
    key: str
    size: tuple[int, int] | None


class FieldParser:
    """Parses records of a dataset of ``classes``. Safe to share between threads."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self.classes = classes
        self._by_class: dict[bytes, tuple[int, bytes]] = {}  # entry "class": its index, entry "label"
        self._by_size: dict[bytes, tuple[int, int]] = {}  # entry "size": height and width
        self._key_heads: dict[int, bytes] = {}  # length of the entry "key": what comes before the key

    def __reduce__(self) -> tuple[type[FieldParser], tuple[tuple[str, ...]]]:
        return FieldParser, (self.classes,)

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
        head = _HEAD.match(framed, HEADER_BYTES)
        if head is None:
            return None
        example, class_entry, entry, feature, values, image = head.groups()
        known = self._by_class.get(class_entry) or self._class_of(class_entry)
        if known is None:
            return None
        (_, start), (_, after_example), _, (_, after_entry), (_, after_feature), (_, after_values), _ = head.regs
        label, label_entry = known
        end, stop = len(framed) - CRC_BYTES, start + _varint(image)
        at = framed.rfind(label_entry, stop, end)
        if (
            at < 0
            or after_example + _varint(example) != end
            or not after_entry + _varint(entry)
            == after_feature + _varint(feature)
            == after_values + _varint(values)
            == stop
        ):
            return None
        size_entry, before_key = framed[at + len(label_entry) : end], self._key_head(at - stop)
        size = self._by_size.get(size_entry) or self._size_of(size_entry)
        pixels = framed[start:stop]
        if (
            size is None
            or not before_key
            or not framed.startswith(before_key, stop)
            or not is_frame(framed, framed[HEADER_BYTES:start], pixels, framed[stop:end])
        ):
            return None
        return Fields(pixels, label, framed[stop + len(before_key) : at].decode(), size)

    def parsed(self, data: bytes) -> Fields:
        """Of the data of a record of any encoder."""
        columns = decode_example(data)
        (image,), (label,), (key,) = (
            column_values(columns, *of) for of in (("image", bytes), ("class", int), ("key", bytes))
        )
        if not 0 <= label < len(self.classes):
            raise RecordProblem("class", f"0 to {len(self.classes) - 1}", str(label))
        height, width = column_values(columns, "size", int, 2) if "size" in columns else (0, 0)
        return Fields(image, label, key.decode(), (height, width) if height > 0 and width > 0 else None)

    def _class_of(self, entry: bytes) -> tuple[int, bytes] | None:
        """Class index and entry of the class's name, for ``_by_class``; None for another form."""
        found = _only_column(entry, "class")
        if len(found) != 1 or not 0 <= found[0] < len(self.classes) or encode_feature("class", found[0]) != entry:
            return None
        known = self._by_class[entry] = found[0], encode_feature("label", self.classes[found[0]].encode())
        return known

    def _size_of(self, entry: bytes) -> tuple[int, int] | None:
        """Height and width, for ``_by_size``; None for an entry of another form."""
        size = _only_column(entry, "size")
        if len(size) != 2 or min(size) < 1 or encode_feature("size", size) != entry:
            return None
        if len(self._by_size) >= _MOST_KNOWN:
            self._by_size.clear()
        known = self._by_size[entry] = size[0], size[1]
        return known

    def _key_head(self, length: int) -> bytes:
        """What comes before the key in an entry of ``length`` bytes; empty if none fits."""
        if length not in self._key_heads:
            heads = ((feature_head("key", size), size) for size in range(max(0, length - _MOST_HEAD), max(0, length)))
            self._key_heads[length] = next((head for head, size in heads if len(head) + size == length), b"")
        return self._key_heads[length]


def _only_column(entry: bytes, name: str) -> list[Any]:
    """The values of an entry; none if it is not one of column ``name``."""
    try:
        return decode_example(join_features([entry])).get(name, [])
    except ValueError:
        return []


def _varint(digits: bytes) -> int:
    if len(digits) == 3:  # 16 kB to 2 MB
        return digits[0] & 0x7F | (digits[1] & 0x7F) << 7 | digits[2] << 14
    value = 0
    for place, digit in enumerate(digits):
        value |= (digit & 0x7F) << 7 * place
    return value
