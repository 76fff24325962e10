"""What a sidecar says of each record of its part: one packed row per record, then all keys.

If a table gives the records further columns, their features follow, each record's behind its size.
If records may have several classes, so does their feature, before those.

Rows are made image by image in the hot path, by ``pack_row``; they are read in columns, by
``PartRows.columns``. So merging is concatenation, and no row is a Python object of its own.
``LAYOUT`` is in the fingerprint: a build never reads rows of another layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardfeed.transforms.elements import ImageRef
from shardfeed.transforms.images.fixes import FIXES

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Names and codes, which struct and NumPy share. ``bytes``: of the framed record. ``source_bytes``,
# ``version``: as listed. ``crc32c``: of the source. ``known``: bits of the columns that are known; a
# ``crc32c`` without its bit was computed, not listed.
# ``mark``: 256 bits that confirm what ``hash`` suggests; of a picture without a hash, of its bytes. ``class``: -1
# unless a record has one class.
_FIELDS = (
    ("bytes", "I"), ("class", "i"), ("height", "I"), ("width", "I"), ("root", "H"), ("fixes", "H"), ("key_bytes", "H"),
    ("known", "B"), ("source_bytes", "I"), ("version", "q"), ("crc32c", "I"), ("hash", "Q"),
    ("mark0", "Q"), ("mark1", "Q"), ("mark2", "Q"), ("mark3", "Q"),
)  # fmt: skip
_ROW = struct.Struct("<" + "".join(code for _, code in _FIELDS))
_PACK = _ROW.pack
_NO_HASH = (0,) * 5
_EXTRAS = struct.Struct("<I")  # bytes of features

ROW_BYTES = _ROW.size  # without its key
CRC_KNOWN, HASH_KNOWN, MARK_KNOWN = 1, 2, 4  # bits of ``known``
MARKS = ("mark0", "mark1", "mark2", "mark3")
FIX_BITS = {fix: 1 << number for number, fix in enumerate(FIXES)}
LAYOUT = (*(f"{name}:{code}" for name, code in _FIELDS), *FIXES)


@dataclass(frozen=True, slots=True)
class PartRows:
    """Rows of a part in the order of its records.

    ``fixed``: the packed columns. ``keys``: joined. ``extras``: ``pack_extras`` of each, joined.
    """

    fixed: bytes = b""
    keys: bytes = b""
    extras: bytes = b""

    def columns(self) -> NDArray[Any]:
        """A structured array with a field per column, without a copy."""
        return row_columns(self.fixed)


def row_columns(fixed: bytes | bytearray) -> NDArray[Any]:
    """The ``fixed`` columns of rows in their memory; to be written if that is a bytearray."""
    import numpy as np

    return np.frombuffer(fixed, np.dtype([(name, f"<{code}") for name, code in _FIELDS]))


def pack_extras(features: Sequence[bytes]) -> bytes:
    """The features of a record that its row does not tell."""
    joined = b"".join(features)
    return _EXTRAS.pack(len(joined)) + joined


def unpack_extras(extras: bytes) -> Iterator[bytes]:
    """The joined features of each record."""
    at = 0
    while at < len(extras):
        begin = at + _EXTRAS.size
        at = begin + _EXTRAS.unpack_from(extras, at)[0]
        yield extras[begin:at]


def extras_bytes(extras: bytes | bytearray, records: int) -> int:
    """Bytes of the first ``records`` records; 0 without columns."""
    at = 0
    for _ in range(records if extras else 0):
        at += _EXTRAS.size + _EXTRAS.unpack_from(extras, at)[0]
    return at


def pack_row(size: int, class_index: int, height: int, width: int, fixes: int, ref: ImageRef) -> bytes:
    """One row; ``size``: bytes of the framed record; ``fixes``: bits of ``FIX_BITS``.

    It has neither hash nor mark yet (``encode/fingerprints.py``).
    """
    root, key, stat = ref.root, ref.key, ref.stat
    crc = stat.crc32c
    known, crc = (0, 0) if crc is None else (CRC_KNOWN, crc)
    return _PACK(
        size, class_index, height, width, root, fixes, len(key), known, stat.size, stat.version, crc, *_NO_HASH
    )
