"""What a part took: the source of the job's timings and bytes read.

The threads that encode sum it, and the step's own thread gets it with the part, because Beam drops
what other threads count. It is in no file: a part's bytes and sidecar must not depend on the clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Spent:
    """Bytes of sources, and seconds of threads: reading, decoding to resizing, encoding, writing.

    ``kept``: an earlier run had finished the part.
    """

    bytes_in: int = 0
    read: float = 0.0
    decode: float = 0.0
    encode: float = 0.0
    write: float = 0.0
    kept: bool = False

    def add(self, other: Spent) -> None:
        """Adds another's sums to these."""
        self.bytes_in += other.bytes_in
        self.read += other.read
        self.decode += other.decode
        self.encode += other.encode
        self.write += other.write
