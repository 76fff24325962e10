"""Which keys come more than once, found with 8 bytes of memory per key."""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class Doubles:
    """Collects the hashes of keys.

    Different keys may have one hash. So the keys of doubled hashes are compared, when they come
    again.
    """

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, key: bytes) -> None:
        """Notes a key."""
        self._hashes.append(hash(key))

    def first(self, again: Iterable[bytes]) -> bytes | None:
        """The first key that comes twice in ``again``: the same keys once more, read if needed."""
        if not (suspects := self.hashes()):
            return None
        seen = set[bytes]()
        for key in again:
            if hash(key) in suspects:
                if key in seen:
                    return key
                seen.add(key)
        return None

    def hashes(self) -> frozenset[int]:
        """``hash(key)`` of the keys that may have come more than once."""
        import numpy as np

        ordered = np.sort(np.frombuffer(self._hashes, np.int64)) if self._hashes else np.zeros(0, np.int64)
        return frozenset(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
