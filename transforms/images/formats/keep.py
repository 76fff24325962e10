"""The bytes of a JPEG that may be stored as they are, without its metadata.

Metadata is dropped segment by segment; pixels that were right stay bit for bit. Kept are the
tables, the frame and its scans, a fresh JFIF header (the old one may hold a thumbnail) and Adobe's
marker (it says how the colours are coded). EXIF, XMP, profiles, comments and everything behind the
end of the image are dropped. Only JPEG: a PNG loses nothing if it is encoded again, and WebP is
not worth a second parser.
"""

from __future__ import annotations

import re
import struct

from shardfeed.transforms.images.formats.jpeg_header import ADOBE, APP0, FRAMES, SCAN, TABLES, segments

_BASELINE = (0xC0, 0xC1)
START_OF_SCAN, END_OF_IMAGE = b"\xff\xda", b"\xff\xd9"
_JFIF_HEADER = b"\xff\xe0\x00\x10JFIF\0\x01\x01\x00\x00\x01\x00\x01\x00\x00"
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # ends entropy-coded data: stuffing and restarts do not


def stripped_jpeg(data: bytes) -> bytes | None:
    """``data`` without metadata if it is a plain baseline JPEG of 8 bits; None if not."""
    kept = [b"\xff\xd8"]
    position = 2
    frames = 0
    while data[position : position + 2] != END_OF_IMAGE:
        if data[position : position + 1] != b"\xff" or len(data) < position + 4:
            return None
        marker = data[position + 1]
        (length,) = struct.unpack_from(">H", data, position + 2)
        end = position + 2 + length
        segment = data[position:end]
        if end > len(data):
            return None
        if marker == SCAN:
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
        elif marker in FRAMES:
            return None
        elif marker in TABLES:
            kept.append(segment)
        elif marker == ADOBE and segment[4:9] == b"Adobe" and len(segment) >= 16:
            kept.append(segment[:2] + b"\x00\x0e" + segment[4:16])
        elif marker == APP0 and segment[4:9] == b"JFIF\0":
            kept.append(_JFIF_HEADER)
        elif not (0xE0 <= marker <= 0xEF or marker == 0xFE):
            return None
        position = end
    return b"".join(kept) + END_OF_IMAGE if len(kept) > 1 else None


def with_plain_header(data: bytes) -> bytes | None:
    """``data`` with an equal header that libjpeg does not warn of; the scans are untouched.

    Dropped or corrected: bytes between segments, profiles, an unknown JFIF revision or colour
    transform, a wrong range of coefficients in a baseline scan. None if there is no scan, or if
    other bytes follow a table: a table may be lost, and libjpeg would take the usual one.
    """
    kept = [b"\xff\xd8"]
    position, sequential, transform = 2, False, b"\x01"
    may_be_a_table = False
    for marker, start, end in segments(data):
        segment = data[start:end]
        if may_be_a_table and data[position:start].strip(b"\xff"):
            return None
        may_be_a_table = marker in TABLES or marker in FRAMES
        if marker == SCAN:
            if sequential:
                segment = segment[:-3] + b"\x00\x3f\x00"
            kept = [_with_known_transform(each, transform) for each in kept]
            return b"".join(kept) + segment + data[end:]
        sequential |= marker in _BASELINE
        if segment[9:10] == b"\x04" and marker in FRAMES:
            transform = b"\x02"  # of four components, YCCK
        if may_be_a_table or (marker, segment[4:9]) == (ADOBE, b"Adobe"):
            kept.append(segment)
        elif (marker, segment[4:9]) == (APP0, b"JFIF\0"):
            kept.append(_JFIF_HEADER)
        position = end
    return None


def _with_known_transform(segment: bytes, usual: bytes) -> bytes:
    """Adobe's segment with a known colour transform: the ``usual`` one, as libjpeg assumes."""
    is_adobe = segment[1:2] == bytes([ADOBE]) and len(segment) >= 16
    return segment[:15] + usual + segment[16:] if is_adobe and segment[15:16] not in (b"\0", usual) else segment
