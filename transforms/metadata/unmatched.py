"""``unmatched.jsonl``: images without a row, rows without an image (``--max_unmatched``).

The smallest keys of each kind are listed; the manifest counts all of them. So the file is the same
from every driver, and a table of the wrong dataset cannot fill memory.
"""

from __future__ import annotations

import heapq

from shardfeed.transforms.elements import RefBatch, unpack_keys
from shardfeed.transforms.metadata.join import UNMATCHED_KINDS
from shardfeed.words import printable_json

LINES = 100_000  # of each kind; up to twice as many keys are held, some 20 MB


class UnmatchedKeys:
    """What did not match, from the batches of a joined listing, in any order."""

    def __init__(self) -> None:
        self._keys: dict[str, list[bytes]] = {kind: [] for kind in sorted(UNMATCHED_KINDS)}

    def add(self, batch: RefBatch) -> None:
        """Takes the keys of a batch whose fault is that they do not match."""
        if (keys := self._keys.get(batch.fault)) is not None:
            keys += (key for key, _, _ in unpack_keys(batch.refs))
            if len(keys) > 2 * LINES:
                keys[:] = heapq.nsmallest(LINES, keys)

    def lines(self) -> bytes:
        """The file, a JSON object per line; empty if everything matches."""
        return "".join(
            printable_json({"key": key.decode("utf-8", "backslashreplace"), "reason": kind}) + "\n"
            for kind, keys in self._keys.items()
            for key in sorted(keys)[:LINES]
        ).encode()
