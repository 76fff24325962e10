"""Image and class of many records at once, without TensorFlow.

The one decision: the places of a window's images are computed with NumPy over all its records, and only records of another
encoder are taken apart one by one. A loop over records holds the interpreter, for which the decoding threads wait: of
photos of 224 x 224 it took 3 µs each, and with the loop that compared the checksums it cost a tenth of ``array_batches``' rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.blocks import Record, Records
from shardfeed.errors import clip
from shardfeed.format.example import decode_example

# What our encoder writes: Example { Features { "class": Int64List { one of 0 to 2^21 - 1 }, "image": BytesList { one } ... } }.
_CLASS = np.frombuffer(b"\n\r\n\x05class\x12\x04\x1a\x02\n\x00", np.uint8)  # of no bytes; four lengths count them
_GROWS = np.isin(np.arange(len(_CLASS)), (1, 10, 12, 14)).astype(np.uint8)
_CLASS_BYTES = 3
_IMAGE = np.frombuffer(b"\n\x05image\x12", np.uint8)
_VARINT_BYTES = 5
_HEAD_BYTES = 5 * (1 + _VARINT_BYTES) + len(_CLASS) + _CLASS_BYTES + len(_IMAGE)  # before an image at most

Bytes = bytes | memoryview
_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


class StrangeRecordError(ValueError):
    """``record`` is no Example with one image and one class."""

    def __init__(self, record: Record, found: str) -> None:
        super().__init__(found)
        self.record = record


def images_and_classes(blocks: Sequence[Records]) -> tuple[list[Bytes], _Ints]:
    """The columns ``image`` and ``class`` of all records of ``blocks``, in order.

    Raises:
        StrangeRecordError: a record is not an Example with these two columns.
    """
    heads = np.concatenate([_heads(records) for records in blocks])
    sizes = np.concatenate([records.stops - records.starts for records in blocks])
    classes, starts, stops, plain = _columns(heads, sizes)
    images: list[Bytes] = []
    for records in blocks:
        mine = slice(len(images), len(images) + len(records))
        memory = memoryview(records.data)
        begin, end = (records.starts + starts[mine]).tolist(), (records.starts + stops[mine]).tolist()
        rest = b"".join([memory[one:other] for one, other in zip(end, records.stops.tolist(), strict=True)])
        if b"\n\x05class" in rest or b"\n\x05image" in rest:  # a column that comes again wins
            plain[mine] = False
        images += [memory[one:other] for one, other in zip(begin, end, strict=True)]
        for number in np.flatnonzero(~plain[mine]).tolist():
            record = records[number]
            try:
                images[mine.start + number], classes[mine.start + number] = image_and_class(bytes(record.data))
            except ValueError as error:
                raise StrangeRecordError(record, str(error)) from None
    return images, classes


def image_and_class(data: bytes) -> tuple[bytes, int]:
    """The columns ``image`` and ``class`` of a record of any encoder.

    Raises:
        ValueError: the bytes are not an Example with these two columns.
    """
    columns: dict[str, Any] = {**decode_example(data)}
    for name, kind in (("image", bytes), ("class", int)):
        values = columns.get(name, [])
        if len(values) != 1 or not isinstance(values[0], kind):
            raise ValueError(f"column {name}: expected 1 of {kind.__name__}, found {clip(repr(values), 40)}")
    return columns["image"][0], columns["class"][0]


def _heads(records: Records) -> NDArray[np.uint8]:
    """The first bytes of each record, uint8[records, _HEAD_BYTES]; behind a shorter one lies something else."""
    places = records.starts[:, None] + np.arange(_HEAD_BYTES)
    return np.frombuffer(records.data, np.uint8).take(places, mode="clip")


def _columns(heads: NDArray[np.uint8], sizes: _Ints) -> tuple[_Ints, _Ints, _Ints, _Bools]:
    """(class, image's begin, its end, whether that is so) of records of ``sizes`` bytes, from their ``heads``.

    Of a whole Example it finds what the careful parser finds: an image that ends where its entry ends is alone in each of the
    lists between. What is no Example at all may pass where something else than the image is wrong.
    """
    look = _Look(heads)
    look.tag()
    plain = look.varint() + look.at == sizes
    count = look.bytes(len(_CLASS))[:, -1]
    plain &= (count > 0) & (count <= _CLASS_BYTES)
    look.expect(_CLASS + _GROWS * count[:, None])
    after = look.at + count
    classes = look.varint()
    plain &= look.at == after
    look.tag()
    stops = look.varint() + look.at
    plain &= stops <= sizes
    look.expect(_IMAGE)
    for _ in range(2):  # the feature, the list in it
        look.varint()
        look.tag()
    plain &= look.varint() + look.at == stops
    return classes, look.at, stops, plain & look.fits


class _Look:
    """Goes through the heads of all records side by side: ``at`` is where it stands in each, ``fits`` whether all was right."""

    def __init__(self, heads: NDArray[np.uint8]) -> None:
        self._flat = heads.reshape(-1)
        self._rows = np.arange(len(heads)) * heads.shape[1]
        self.at = np.zeros(len(heads), np.int64)
        self.fits = np.ones(len(heads), np.bool_)

    def bytes(self, count: int) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = self._flat.take((self._rows + self.at)[:, None] + np.arange(count), mode="clip")
        return found

    def expect(self, text: NDArray[np.uint8]) -> None:
        self.fits &= (self.bytes(text.shape[-1]) == text).all(axis=1)
        self.at = self.at + text.shape[-1]

    def tag(self) -> None:
        """That of the first field, if it has a length."""
        self.fits &= self._flat.take(self._rows + self.at, mode="clip") == 0x0A
        self.at = self.at + 1

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
