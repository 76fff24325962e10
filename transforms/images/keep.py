"""The bytes of a JPEG that may be stored as they are, without what must not be carried over.

One decision: metadata is dropped losslessly, segment by segment, rather than re-encoding for it: pixels that were right
stay bit for bit. Kept are the tables, the frame and its scans, a fresh JFIF header (the old one may hold a thumbnail) and
Adobe's marker (it says how the colours are coded); EXIF, XMP, profiles, comments and everything behind the end of the image
go. Only JPEG: a PNG loses nothing by being encoded again, and for WebP it is not worth a second parser.
"""

from __future__ import annotations

import re
import struct

_BASELINE = (0xC0, 0xC1)
_TABLES = (0xC4, 0xDB, 0xDD)  # Huffman, quantisation, restart interval
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {0xC4, 0xC8}  # progressive, lossless, arithmetic ...
_END = b"\xff\xd9"
_SCAN, _ADOBE, _JFIF = 0xDA, 0xEE, 0xE0
_JFIF_HEADER = b"\xff\xe0\x00\x10JFIF\0\x01\x01\x00\x00\x01\x00\x01\x00\x00"
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # ends entropy-coded data: stuffing and restarts do not


def stripped_jpeg(data: bytes) -> bytes | None:
    """``data`` without metadata if it is a baseline JPEG of 8 bits in plain order; None if it has to be re-encoded."""
    kept = [b"\xff\xd8"]
    position = 2
    frames = 0
    while data[position : position + 2] != _END:
        if data[position : position + 1] != b"\xff" or len(data) < position + 4:
            return None
        marker = data[position + 1]
        (length,) = struct.unpack_from(">H", data, position + 2)
        end = position + 2 + length
        segment = data[position:end]
        if end > len(data):
            return None
        if marker == _SCAN:
            match = _MARKER.search(data, end)
            if frames != 1 or match is None:
                return None
            end = match.start()
            kept.append(data[position:end])
        elif marker in _BASELINE:
            if segment[4:5] != b"\x08":
                return None
            frames += 1
            kept.append(segment)
        elif marker in _OTHER_FRAMES:
            return None
        elif marker in _TABLES:
            kept.append(segment)
        elif marker == _ADOBE and segment[4:9] == b"Adobe":
            kept.append(segment[:2] + b"\x00\x0e" + segment[4:16])
        elif marker == _JFIF and segment[4:9] == b"JFIF\0":
            kept.append(_JFIF_HEADER)
        elif not (0xE0 <= marker <= 0xEF or marker == 0xFE):
            return None
        position = end
    return b"".join(kept) + _END if len(kept) > 1 else None
