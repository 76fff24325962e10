"""What a stored image shall be. Part of the dataset's fingerprint: two builds with equal options give equal bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ResizeMode = Literal["crop", "squash", "pad", "shortest", "longest"]
Channels = Literal["rgb", "gray"]
Format = Literal["jpeg", "png", "webp", "raw"]
Resizer = Literal["simd", "pillow"]


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Target of every image.

    ``height``, ``width``: pixels; equal for ``shortest`` and ``longest``, where they are the length of that side.
    ``quality``: 1-100 for jpeg and webp. ``background``: RGB that alpha is composited on and ``pad`` fills with.
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
