"""The columns of a slice's rows that tell duplicates: computed for all of its images at once."""

from __future__ import annotations

import threading
from hashlib import blake2b

import numpy as np

from shardfeed.format.checksums import crc32c
from shardfeed.transforms.images.pixels.perceptual_hash import Samples
from shardfeed.transforms.output.part_rows import CRC_KNOWN, HASH_KNOWN, MARK_KNOWN, MARKS, row_columns

_thread = threading.local()


class SliceFingerprints:
    """Takes the images of a slice, of at most ``most``, and completes their rows at its end."""

    def __init__(self, most: int) -> None:
        self.samples = Samples(most)
        self._sources: list[bytes] = []

    def begin(self) -> None:
        """Forgets the images of a slice that ended early."""
        self.samples.count = 0
        self._sources.clear()

    def add(self, source: bytes) -> None:
        """Notes that an image, whose samples were taken, has a row now; ``source``: its file."""
        self.samples.count += 1
        self._sources.append(source)

    def complete(self, rows: bytearray) -> None:
        """Writes hashes, marks and missing checksums into the ``rows`` of the images."""
        if not self._sources:
            return
        columns = row_columns(rows)
        hashes, marks, textured = self.samples.hashes()
        for number in np.flatnonzero(~textured).tolist():  # a digest tells whether two such files are equal
            marks[number] = np.frombuffer(blake2b(self._sources[number], digest_size=32).digest(), "<u8")
        for number in np.flatnonzero(columns["known"] & CRC_KNOWN == 0).tolist():
            columns["crc32c"][number] = crc32c(self._sources[number])
        columns["hash"] = np.where(textured, hashes, np.uint64(0))
        for number, name in enumerate(MARKS):
            columns[name] = marks[:, number]
        columns["known"] |= np.where(textured, HASH_KNOWN | MARK_KNOWN, MARK_KNOWN).astype("u1")


def slice_fingerprints(most: int) -> SliceFingerprints:
    """This thread's, empty."""
    found: SliceFingerprints | None = getattr(_thread, "fingerprints", None)
    if found is None:
        found = _thread.fingerprints = SliceFingerprints(most)
    found.begin()
    return found
