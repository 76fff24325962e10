"""How an image is stored. Part of the fingerprint: builds with equal options give equal bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shardfeed.transforms.images.formats.table import DEFAULT_FORMATS
from shardfeed.transforms.images.limits import DEFAULT_LIMITS, Limits

ResizeMode = Literal["crop", "squash", "pad", "shortest", "longest"]
Channels = Literal["rgb", "gray"]
Format = Literal["jpeg", "png", "webp", "raw"]
Resizer = Literal["simd", "pillow"]


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Target of every image.

    ``height``, ``width``: pixels. For ``shortest`` and ``longest`` both are the length of that
    side.
    ``quality``: 1-100, for jpeg and webp. ``background``: RGB 0-255 behind transparent pixels and
    around images that ``pad`` fills up. ``formats``: sources that are read, sorted names of
    ``INPUT_FORMATS``.
    """

    height: int = 224
    width: int = 224
    resize: ResizeMode = "crop"
    channels: Channels = "rgb"
    format: Format = "jpeg"
    quality: int = 95
    resizer: Resizer = "simd"
    keep_original: bool = False
    background: tuple[int, int, int] = (0, 0, 0)
    formats: tuple[str, ...] = DEFAULT_FORMATS
    limits: Limits = DEFAULT_LIMITS
