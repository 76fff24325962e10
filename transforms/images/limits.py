"""Limits, so that no hostile image takes a worker down; checked before any pixel is allocated.

They bound what one image can take (64 Mpx of RGB are 256 MiB in Pillow); ``encode/budget.py``
bounds what all images of a process take together. They decide which images are rejects, so those
that a user can set are options of the build and in its fingerprint. The defaults are powers of two,
so that the images of 64-megapixel phones (9280 x 6944) and outputs of 2048 x 2048 pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardfeed.transforms.images.rejects import Reason, RejectError

MAX_OUTPUT_PIXELS = 4 << 20
MAX_SCANS = 100  # of a progressive JPEG; encoders write 10. Each scan costs a pass over all pixels


@dataclass(frozen=True, slots=True)
class Limits:
    """What a source may be, by the names of the flags.

    ``min_size``: pixels of the shorter side. ``max_file_bytes``: of the file. ``max_aspect``:
    longer : shorter side.
    """

    min_size: int = 1
    max_pixels: int = 64 << 20
    max_file_bytes: int = 64 << 20
    max_aspect: float = 100


DEFAULT_LIMITS = Limits()


def check_size(size: int, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse a file by its listed size in bytes, before anything is read.

    Raises:
        RejectError: EMPTY or TOO_LARGE.
    """
    if size == 0:
        raise RejectError(Reason.EMPTY, "zero bytes")
    if size > limits.max_file_bytes:
        raise RejectError(Reason.TOO_LARGE, f"{size} bytes; at most {limits.max_file_bytes} (--max_file_bytes)")


def check_source(width: int, height: int, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse a source by its header.

    Raises:
        RejectError: PIXELS, ASPECT or SMALL.
    """
    longer, shorter = max(width, height), min(width, height)
    if width * height > limits.max_pixels:
        words = f"= {width * height} pixels; at most {limits.max_pixels} (--max_pixels)"
        raise RejectError(Reason.PIXELS, f"{width} x {height} {words}")
    if longer > limits.max_aspect * shorter:
        words = f"the longer side is at most {limits.max_aspect} x the shorter (--max_aspect)"
        raise RejectError(Reason.ASPECT, f"{width} x {height}; {words}")
    if shorter < limits.min_size:
        words = f"the shorter side has at least {limits.min_size} pixels (--min_size)"
        raise RejectError(Reason.SMALL, f"{width} x {height}; {words}")


def check_output(width: int, height: int) -> None:
    """Refuse a result that would be too large, as ``shortest`` makes of long, thin images.

    Raises:
        RejectError: OUTPUT.
    """
    if width * height > MAX_OUTPUT_PIXELS:
        raise RejectError(
            Reason.OUTPUT, f"the result would be {width} x {height} pixels; at most {MAX_OUTPUT_PIXELS} in all"
        )
