"""How many bytes an encoded image will have, and what decoding it costs, in exact integers.

The number of parts follows from these numbers. Nothing of the machine may enter: another number
of parts moves 95 % of the records to other shards. Only the source's size is known before
decoding, and it predicts little once images are resized. So the estimate is the target's area
times bytes per pixel of format and quality.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from shardfeed.transforms.images.limits import DEFAULT_LIMITS, Limits
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.suffixes import JPEG_SUFFIXES

RECORD_OVERHEAD = 160  # bytes: TFRecord framing, the other columns, feature names

# (quality, thousandths of a byte per pixel) of 4:2:0 JPEG, from 3,068 photos at 224x224.
_JPEG_MILLI = ((1, 30), (50, 115), (75, 181), (90, 297), (95, 417), (98, 574), (100, 900))
_WEBP_PERCENT_OF_JPEG = 75
_PNG_MILLI = 1_430  # RGB photos at 224x224
_JPEG_HEADER = 620  # bytes
_LARGE_PHOTO = 5_000_000  # bytes of a JPEG of 12 megapixels
_MOST_COMPRESSED = 200  # bytes of a photo that cost as much as one of a page or a drawing


def record_estimate(options: ImageOptions) -> Callable[[int], int]:
    """Estimates the bytes of a record; those of its source matter only with ``keep_original``."""
    area = options.height * options.width
    if options.resize == "shortest":
        area = area * 4 // 3  # the common photo is 3:4
    elif options.resize == "longest":
        area = area * 3 // 4
    encoded = _encoded_bytes(area, options)
    if options.keep_original:
        return lambda source_bytes: min(encoded, source_bytes) + RECORD_OVERHEAD
    return lambda _: encoded + RECORD_OVERHEAD


def estimate_work(key: bytes, source_bytes: int, limits: Limits = DEFAULT_LIMITS) -> int:
    """What an image costs to decode, in bytes of a photo's JPEG that costs as much.

    1 GB of such bytes is 15 s of a core. A listing shows bytes, not pixels. A JPEG's bytes are its
    work; so are those of names without a suffix, which are taken for photos. In other formats a
    page of 12 megapixels has 20 kB and costs as much as a photo of 5 MB. So bytes of other formats
    count 200 times up to 5 MB, and once above.
    """
    if source_bytes > limits.max_file_bytes:  # not read
        return 0
    if key.lower().endswith(JPEG_SUFFIXES) or b"." not in key.rpartition(b"/")[2]:
        return source_bytes
    return max(source_bytes, min(_MOST_COMPRESSED * source_bytes, _LARGE_PHOTO))


def _encoded_bytes(area: int, options: ImageOptions) -> int:
    gray = options.channels == "gray"
    if options.format == "raw":
        return area * (1 if gray else 3)
    if options.format == "png":
        return area * _PNG_MILLI // (2_500 if gray else 1_000)
    milli = _jpeg_milli(options.quality) * (85 if gray else 100) // 100
    if options.format == "webp":
        milli = milli * _WEBP_PERCENT_OF_JPEG // 100
    return area * milli // 1_000 + _JPEG_HEADER


def _jpeg_milli(quality: int) -> int:
    for (low, below), (high, above) in pairwise(_JPEG_MILLI):
        if quality <= high:
            return below + (above - below) * (quality - low) // (high - low)
    return _JPEG_MILLI[-1][1]
