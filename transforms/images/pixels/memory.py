"""Pillow's images of pixels that lie in other memory, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image, _imaging

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def image_of(pixels: NDArray[np.uint8], mode: str, size: tuple[int, int], row_bytes: int = 0) -> Image.Image:
    """An image of ``pixels``, uint8[height, width, 4], or uint8[height, width] of mode ``L``.

    Pillow keeps ``RGB`` in four bytes per pixel too. Its own ``Image.frombuffer`` copies them, and
    takes three times as long for other modes.

    Args:
        pixels: the memory, in which the image stays.
        mode: ``RGB``, ``CMYK`` or ``L``.
        size: (width, height) in pixels.
        row_bytes: from one row to the next; 0 if they lie side by side.
    """
    return Image.Image()._new(_imaging.map_buffer(pixels, size, "raw", 0, (mode, row_bytes, 1)))
