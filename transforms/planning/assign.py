"""Which part a reference belongs to: part = hash64("part", seed, key) * P >> 64.

A part is a range of the hash, not a remainder, so that parts lie in hash order. The key alone
decides, never the order of listing.
"""

from __future__ import annotations

from shardfeed.format.hashing import hash64
from shardfeed.transforms.elements import unpack_keys


def split_by_part(refs: bytes, parts: int, seed: int) -> dict[int, bytes]:
    """A batch of packed references cut by part, of ``parts``."""
    grouped: dict[int, list[bytes]] = {}
    for key, _, packed in unpack_keys(refs):
        grouped.setdefault(hash64("part", seed, key) * parts >> 64, []).append(packed)
    return {part: b"".join(pieces) for part, pieces in grouped.items()}
