"""What a sidecar says of each record of its part: one packed row per record, then all keys.

Rows are made image by image in the hot path, by ``pack_row``; they are read in columns, by
``PartRows.columns``. So merging is concatenation, and no row is a Python object of its own.
``LAYOUT`` is in the fingerprint: a build never reads rows of another layout.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardfeed.transforms.elements import ImageRef
from shardfeed.transforms.images.fixes import FIXES

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Names and codes, which struct and NumPy share. ``bytes``: of the framed record. ``source_bytes``,
# ``version``, ``crc32c``: as listed. ``known``: bits of the columns that are not null.
_FIELDS = (
    ("bytes", "I"), ("class", "i"), ("height", "I"), ("width", "I"), ("root", "H"), ("fixes", "I"), ("key_bytes", "H"),
    ("known", "B"), ("source_bytes", "Q"), ("version", "q"), ("crc32c", "I"), ("hash", "Q"),
)  # fmt: skip
_ROW = struct.Struct("<" + "".join(code for _, code in _FIELDS))
_PACK = _ROW.pack

ROW_BYTES = _ROW.size  # without its key
CRC_KNOWN, HASH_KNOWN = 1, 2  # bits of ``known``
FIX_BITS = {fix: 1 << number for number, fix in enumerate(FIXES)}
LAYOUT = (*(f"{name}:{code}" for name, code in _FIELDS), *FIXES)


@dataclass(frozen=True, slots=True)
class PartRows:
    """Rows of a part in the order of its records: ``fixed`` columns, and the ``keys`` joined."""

    fixed: bytes = b""
    keys: bytes = b""

    def columns(self) -> NDArray[Any]:
        """A structured array with a field per column, without a copy."""
        import numpy as np

        return np.frombuffer(self.fixed, np.dtype([(name, f"<{code}") for name, code in _FIELDS]))


def pack_row(size: int, class_index: int, height: int, width: int, fixes: int, ref: ImageRef) -> bytes:
    """One row; ``size``: bytes of the framed record; ``fixes``: bits of ``FIX_BITS``."""
    root, key, stat = ref.root, ref.key, ref.stat
    crc = stat.crc32c
    known, crc = (0, 0) if crc is None else (CRC_KNOWN, crc)
    return _PACK(size, class_index, height, width, root, fixes, len(key), known, stat.size, stat.version, crc, 0)
