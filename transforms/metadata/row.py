"""What a table says of one image, packed: its labels, its split, its group, its columns.

A row travels behind its image's key (``ImageRef.row``) from the join to the encoder. The columns
are features of a ``tf.train.Example`` already, so that no later step needs to know their types.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

_HEAD = struct.Struct("<HH")  # labels, columns
_SIZE = struct.Struct("<I")


class Row(NamedTuple):
    """One row, as far as the build's options ask for it.

    ``labels``: several in a dataset of many labels per image. ``split``, ``group``: texts of the
    columns that ``--splits`` and ``--group_by`` name. ``features``: (column, its encoded feature),
    in the byte order of the columns' names.
    """

    labels: tuple[str, ...] = ()
    split: str = ""
    group: str = ""
    features: tuple[tuple[str, bytes], ...] = ()


def pack_table_row(row: Row) -> bytes:
    """The bytes of a row; equal rows have equal bytes."""
    texts = (*row.labels, row.split, row.group, *(name for name, _ in row.features))
    pieces = [text.encode() for text in texts] + [feature for _, feature in row.features]
    return _HEAD.pack(len(row.labels), len(row.features)) + b"".join(_SIZE.pack(len(one)) + one for one in pieces)


def unpack_table_row(packed: bytes) -> Row:
    """The row whose ``pack_table_row`` gave ``packed``."""
    labels, columns = _HEAD.unpack_from(packed)
    pieces = _pieces(packed, labels + 2 + 2 * columns)
    texts = [piece.decode() for piece in pieces[: labels + 2 + columns]]
    names, features = texts[labels + 2 :], pieces[labels + 2 + columns :]
    return Row(tuple(texts[:labels]), texts[labels], texts[labels + 1], tuple(zip(names, features, strict=True)))


def labels_of_row(packed: bytes) -> tuple[str, ...]:
    """The labels alone, without the cost of the rest."""
    return tuple(piece.decode() for piece in _pieces(packed, _HEAD.unpack_from(packed)[0]))


def _pieces(packed: bytes, count: int) -> Sequence[bytes]:
    found, at = [], _HEAD.size
    for _ in range(count):
        begin = at + _SIZE.size
        at = begin + _SIZE.unpack_from(packed, at)[0]
        found.append(packed[begin:at])
    return found
