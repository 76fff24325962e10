"""Image and class of many records at once, and their keys and sizes, without TensorFlow.

NumPy computes the places of a window's images over all its records. Only records of another
encoder are parsed one by one. A loop over records holds the interpreter, and the decoding threads
wait for it. With photos of 224 x 224 it took 3 µs per record; together with the loop that compared
the checksums it cost a tenth of the rate of ``array_batches``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.decoding import Bytes, RecordProblem
from shardfeed.errors import clip
from shardfeed.format.example import decode_example

# What our encoder writes: Example { Features { "class": Int64List { one of 0 to 2^21 - 1 },
# "image": BytesList { one } ... } }.
# With a class of 0 bytes; four lengths count its bytes.
_CLASS = np.frombuffer(b"\n\r\n\x05class\x12\x04\x1a\x02\n\x00", np.uint8)
_GROWS = np.isin(np.arange(len(_CLASS)), (1, 10, 12, 14)).astype(np.uint8)
_CLASS_BYTES = 3
_IMAGE = np.frombuffer(b"\n\x05image\x12", np.uint8)
# What it writes behind an image, to the end of the record: "key" and "label", a BytesList of one
# each, and "size", an Int64List of height and width.
_KEY, _LABEL, _SIZE = (
    np.frombuffer(b"\n%c%b\x12" % (len(name), name), np.uint8) for name in (b"key", b"label", b"size")
)
_VARINT_BYTES = 5
# Most bytes before an image.
_HEAD_BYTES = 5 * (1 + _VARINT_BYTES) + len(_CLASS) + _CLASS_BYTES + len(_IMAGE)

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def images_and_classes(blocks: Sequence[LoadedBlock], reader: BlockReader) -> tuple[list[Bytes], _Ints]:
    """The columns ``image`` and ``class`` of all records of ``blocks``, in order.

    Raises:
        DatasetError: a record is not an Example with these two columns.
    """
    heads = np.concatenate([_heads(block) for block in blocks])
    sizes = np.concatenate([block.stops - block.starts for block in blocks])
    classes, starts, stops, plain = _columns(heads, sizes)
    images: list[Bytes] = []
    for block in blocks:
        mine = slice(len(images), len(images) + len(block))
        memory = memoryview(block.data)
        begin, end = (block.starts + starts[mine]).tolist(), (block.starts + stops[mine]).tolist()
        rest = b"".join([memory[one:other] for one, other in zip(end, block.stops.tolist(), strict=True)])
        if b"\n\x05class" in rest or b"\n\x05image" in rest:  # a column that comes again wins
            plain[mine] = False
        images += [memory[one:other] for one, other in zip(begin, end, strict=True)]
        for number in np.flatnonzero(~plain[mine]).tolist():
            record = block[number]
            try:
                images[mine.start + number], classes[mine.start + number] = image_and_class(bytes(record.data))
            except ValueError as error:
                raise reader.damage(record, _no_example(error)) from None
    return images, classes


def keys_and_sizes(blocks: Sequence[LoadedBlock], reader: BlockReader) -> tuple[list[bytes], _Ints]:
    """The columns ``key`` and ``size`` of all records of ``blocks``, in order.

    Sizes are int64[n, 2], height and width.

    Raises:
        DatasetError: a record is not an Example with these two columns.
    """
    lengths = np.concatenate([block.stops - block.starts for block in blocks])
    _, _, image_stops, plain = _columns(np.concatenate([_heads(block) for block in blocks]), lengths)
    behind = np.where(plain, image_stops, lengths)
    flat = b"".join(
        memoryview(block.data)[one:other]
        for block, skip in zip(blocks, np.split(behind, np.cumsum([len(block) for block in blocks])[:-1]), strict=True)
        for one, other in zip((block.starts + skip).tolist(), block.stops.tolist(), strict=True)
    )
    rest = lengths - behind
    first = np.cumsum(rest) - rest
    cursor = _Cursor(np.frombuffer(flat or b"\0", np.uint8), first)
    starts, stops = cursor.bytes_entry(_KEY)
    cursor.at = stops
    _, cursor.at = cursor.bytes_entry(_LABEL)
    sizes = cursor.pair_entry(_SIZE)
    keys = [flat[one:other] for one, other in zip((first + starts).tolist(), (first + stops).tolist(), strict=True)]
    others = np.flatnonzero(~(plain & cursor.fits & (cursor.at == rest))).tolist()
    records = [record for block in blocks for record in block] if others else []
    for number in others:
        try:
            found = decode_example(bytes(records[number].data))
            (keys[number],), sizes[number] = column_values(found, "key", bytes, 1), column_values(found, "size", int, 2)
        except ValueError as error:
            raise reader.damage(records[number], _no_example(error)) from None
    return keys, sizes


def image_and_class(data: bytes) -> tuple[bytes, int]:
    """The columns ``image`` and ``class`` of a record of any encoder.

    Raises:
        ValueError: the bytes are not an Example with these two columns.
    """
    found = decode_example(data)
    (image,), (number,) = column_values(found, "image", bytes, 1), column_values(found, "class", int, 1)
    return image, number


def column_values(found: Mapping[str, list[Any]], name: str, kind: type, count: int = 1) -> list[Any]:
    """The ``count`` values of a column; ValueError if there is another number or kind of them."""
    values = found.get(name, [])
    if len(values) != count or not all(isinstance(value, kind) for value in values):
        raise ValueError(f"column {name}: expected {count} of {kind.__name__}, found {clip(repr(values), 40)}")
    return values


def _no_example(error: ValueError) -> RecordProblem:
    return RecordProblem("record", "a tf.train.Example", str(error))


def _heads(block: LoadedBlock) -> NDArray[np.uint8]:
    """First _HEAD_BYTES of each record; a shorter record is followed by unrelated bytes."""
    places = block.starts[:, None] + np.arange(_HEAD_BYTES)
    return np.frombuffer(block.data, np.uint8).take(places, mode="clip")


def _columns(heads: NDArray[np.uint8], sizes: _Ints) -> tuple[_Ints, _Ints, _Ints, _Bools]:
    """(class, image's begin, its end, whether our encoder wrote it) of records of ``sizes`` bytes.

    In a valid Example it finds what ``image_and_class`` finds: an image that ends where its entry
    ends is alone in each of the lists around it. A record that is not an Example may still pass if
    something else than the image is wrong; its checksum has ruled that out.
    """
    cursor = _Cursor(heads.reshape(-1), np.arange(len(heads)) * heads.shape[1])
    plain = cursor.field_end() == sizes
    count = cursor.bytes(len(_CLASS))[:, -1]
    plain &= (count > 0) & (count <= _CLASS_BYTES)
    cursor.expect(_CLASS + _GROWS * count[:, None])
    after = cursor.at + count
    classes = cursor.varint()
    plain &= cursor.at == after
    stops = cursor.field_end()
    plain &= stops <= sizes
    cursor.expect(_IMAGE)
    cursor.varint()  # length of the feature
    cursor.field_end()  # the list in it
    plain &= cursor.field_end() == stops
    return classes, cursor.at, stops, plain & cursor.fits


class _Cursor:
    """Reads a piece of each record, all at once. The pieces begin at ``rows`` of ``flat``.

    ``at``: where each piece is read next. ``fits``: whether it had all expected bytes so far.
    """

    def __init__(self, flat: NDArray[np.uint8], rows: _Ints) -> None:
        self._flat, self._rows = flat, rows
        self.at = np.zeros(len(rows), np.int64)
        self.fits = np.ones(len(rows), np.bool_)

    def bytes(self, count: int) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = self._flat.take((self._rows + self.at)[:, None] + np.arange(count), mode="clip")
        return found

    def expect(self, text: NDArray[np.uint8]) -> None:
        self.fits &= (self.bytes(text.shape[-1]) == text).all(axis=1)
        self.at = self.at + text.shape[-1]

    def field_end(self, tag: int = 0x0A) -> _Ints:
        """Reads tag and length of a field (field 1, length-delimited). Returns where it ends."""
        self.fits &= self._flat.take(self._rows + self.at, mode="clip") == tag
        self.at = self.at + 1
        size = self.varint()
        return size + self.at

    def bytes_entry(self, name: NDArray[np.uint8]) -> tuple[_Ints, _Ints]:
        """Reads the entry of a column up to its one value. Returns where that begins and ends."""
        end = self.field_end()
        self.expect(name)
        self.varint()  # length of the feature
        self.field_end()  # the list in it
        stop = self.field_end()
        self.fits &= stop == end
        return self.at, stop

    def pair_entry(self, name: NDArray[np.uint8]) -> _Ints:
        """Reads the entry of a column of two packed integers, int64[n, 2]."""
        end = self.field_end()
        self.expect(name)
        self.varint()
        self.field_end(0x1A)  # field 3 of a feature
        stop = self.field_end()
        pair = np.stack([self.varint(), self.varint()], axis=1)
        self.fits &= (self.at == stop) & (stop == end)
        return pair

    def varint(self) -> _Ints:
        digits = self.bytes(_VARINT_BYTES)
        more = np.logical_and.accumulate(digits > 0x7F, axis=1)
        self.fits &= ~more[:, -1]
        count = more.sum(axis=1) + 1
        self.at = self.at + count
        values = (digits & 0x7F).astype(np.int64) << np.arange(0, 7 * _VARINT_BYTES, 7)
        values[:, 1:][~more[:, :-1]] = 0
        total: _Ints = values.sum(axis=1)
        return total
