"""Limits, so that no hostile image takes a worker down; checked before any pixel is allocated.

Limits are constants, not flags. They bound memory (64 Mpx of RGB are 256 MiB in Pillow), so a run's
memory follows from the number of threads alone. They decide which images are rejects, so equal
inputs give equal datasets everywhere. They are powers of two, so that the images of 64-megapixel
phones (9280 x 6944) and outputs of 2048 x 2048 pass.
"""

from __future__ import annotations

from shardfeed.transforms.images.rejects import Reason, RejectError

MAX_FILE_BYTES = 64 << 20
MAX_SOURCE_PIXELS = 64 << 20
MAX_OUTPUT_PIXELS = 4 << 20
MAX_ASPECT = 100  # longer : shorter side
MAX_SCANS = 100  # of a progressive JPEG; encoders write 10. Each scan costs a pass over all pixels


def check_size(size: int) -> None:
    """Refuse a file by its listed size in bytes, before anything is read.

    Raises:
        RejectError: EMPTY or TOO_LARGE.
    """
    if size == 0:
        raise RejectError(Reason.EMPTY, "zero bytes")
    if size > MAX_FILE_BYTES:
        raise RejectError(Reason.TOO_LARGE, f"{size} bytes; at most {MAX_FILE_BYTES}")


def check_source(width: int, height: int) -> None:
    """Refuse a source by its header.

    Raises:
        RejectError: PIXELS or ASPECT.
    """
    if width * height > MAX_SOURCE_PIXELS:
        raise RejectError(Reason.PIXELS, f"{width} x {height} = {width * height} pixels; at most {MAX_SOURCE_PIXELS}")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise RejectError(Reason.ASPECT, f"{width} x {height}; the longer side is at most {MAX_ASPECT} x the shorter")


def check_output(width: int, height: int) -> None:
    """Refuse a result that would be too large, as ``shortest`` makes of long, thin images.

    Raises:
        RejectError: OUTPUT.
    """
    if width * height > MAX_OUTPUT_PIXELS:
        raise RejectError(
            Reason.OUTPUT, f"the result would be {width} x {height} pixels; at most {MAX_OUTPUT_PIXELS} in all"
        )
