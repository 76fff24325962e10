"""Thumbnails for the page: small WebP images as data, which together take at most 3 MB of it.

Whoever asks first is served first. Bytes of a source may be hostile, so nothing that decoding them
raises stops the page, and an image of too many pixels is not decoded.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from PIL import Image, ImageFile, ImageOps

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo
from shardfeed.format.example import decode_example
from shardfeed.format.manifest import ImageInfo
from shardfeed.format.tfrecord import unframe
from shardfeed.reporting.tables import RecordPlace
from shardfeed.runtime import cores

BUDGET = 3_000_000  # bytes of the page
SIDE = 160  # pixels, the longest side
_SMALL = 80  # pixels; smaller images are enlarged by whole pixels, and keep their quality
_MOST_PIXELS = 64 << 20  # to decode, of a JPEG after it is scaled; by default a build decodes no more
_REQUESTS = 16  # to a bucket at a time; one waits about 50 ms for some 20 kB
_AT_ONCE = 128  # records whose thumbnails are made before the budget is asked again
_SOURCES = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "AVIF")  # JPEG is MPO, too


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A thumbnail; ``data``: its address, "" if the bytes do not decode. Sizes in pixels."""

    data: str = ""
    width: int = SIDE
    height: int = SIDE

    @property
    def small(self) -> bool:
        """True if it is shown with visible pixels."""
        return max(self.width, self.height) < _SMALL


@dataclass(frozen=True, slots=True)
class Picture:
    """A record that is drawn: its ``key`` and its thumbnail."""

    split: str
    key: str
    thumbnail: Thumbnail


class PictureBudget:
    """Bytes that thumbnails may still take."""

    def __init__(self, left: int = BUDGET) -> None:
        self.left = left

    def takes(self, thumbnail: Thumbnail) -> bool:
        """True if there is room for it, which is then taken."""
        if len(thumbnail.data) > self.left:
            self.left = 0  # the next one might be smaller, and out of its turn
            return False
        self.left -= len(thumbnail.data)
        return True


def draw_pictures(
    dataset: DatasetInfo, places: Iterable[RecordPlace], budget: PictureBudget
) -> dict[RecordPlace, Picture]:
    """The records at ``places``, in this order as far as the budget reaches.

    Raises:
        StorageError: the store kept failing.
    """
    left, out = iter(dict.fromkeys(places)), {}
    with ThreadPoolExecutor(_REQUESTS if storage.is_remote(dataset.url) else cores()) as pool:
        while budget.left and (some := list(islice(left, _AT_ONCE))):
            for place, picture in zip(some, pool.map(lambda each: _drawn(dataset, each), some), strict=True):
                if budget.takes(picture.thumbnail):
                    out[place] = picture
    return out


def _drawn(dataset: DatasetInfo, place: RecordPlace) -> Picture:
    framed = storage.open_store(dataset.url).read_range(place.shard, place.offset, place.bytes)
    return _picture(place, framed, dataset.manifest.image)


def _picture(place: RecordPlace, framed: bytes, image: ImageInfo) -> Picture:
    try:
        columns = decode_example(unframe(framed) or b"")
        key = columns["key"][0].decode()
    except (ValueError, KeyError, IndexError, AttributeError):
        return Picture(place.split, f"{place.shard} at byte {place.offset}, damaged", Thumbnail())
    try:
        height, width = columns["size"]
        return Picture(place.split, key, _stored(columns["image"][0], height, width, image))
    except Exception:  # Pillow raises nearly anything on damaged data; the page shows it
        return Picture(place.split, key, Thumbnail())


def _stored(data: bytes, height: int, width: int, image: ImageInfo) -> Thumbnail:
    if image.format == "raw":
        return _encoded(_scaled(Image.frombytes("L" if image.channels == 1 else "RGB", (width, height), data)))
    with Image.open(io.BytesIO(data), formats=[image.format.upper()]) as picture:
        return _encoded(_scaled(picture))


def source_thumbnail(data: bytes) -> Thumbnail:
    """A source as far as it decodes; it may be damaged or hostile. One thread at a time."""
    before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the damage for which it was rejected
            with Image.open(io.BytesIO(data), formats=_SOURCES) as picture:
                return _encoded(ImageOps.exif_transpose(_scaled(picture)))
    except Exception:  # as above
        return Thumbnail()
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def _scaled(picture: Image.Image) -> Image.Image:
    """``picture`` in RGB, with sides of at most ``SIDE``."""
    picture.draft("RGB", (SIDE, SIDE))  # a JPEG is decoded at an eighth of its size, if that is enough
    if picture.width * picture.height > _MOST_PIXELS:
        raise ValueError("too many pixels")
    if max(picture.size) > SIDE:
        return ImageOps.contain(picture.convert("RGB"), (SIDE, SIDE), Image.Resampling.LANCZOS)
    return picture.convert("RGB")


def _encoded(picture: Image.Image) -> Thumbnail:
    out = io.BytesIO()
    quality = 90 if max(picture.size) < _SMALL else 60
    picture.save(out, "WEBP", quality=quality, method=2)
    address = f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
    return Thumbnail(address, picture.width, picture.height)
