"""Pixels cut out and resized without TensorFlow: bilinear, antialiased.

The resizer is that of the builds (``fast_image_resize``), with a triangle as wide as a source or
a target pixel, whichever is wider. That is the filter of ``shardfeed.load``. It rounds after each
of its two directions, and TensorFlow rounds once, so a value may differ by 1 of 255 levels. With
floats the same resizer differs in one value of 10,000, and takes three times as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

_thread = threading.local()  # a Resizer keeps its buffers between images; threads must not share it


def cut_and_resize(pixels: Pixels, box: Any, out: Pixels) -> None:
    """Write the part ``box`` of ``pixels`` uint8[h, w, c] into ``out``, at the size of ``out``.

    ``box`` is top, left, height and width; None means all of ``pixels``. Pixels outside of it have
    no influence. A part that has the size already is copied.
    """
    if box is not None:
        top, left, height, width = box
        pixels = pixels[top : top + height, left : left + width]
    if pixels.shape == out.shape:
        out[...] = pixels
    else:
        resize = getattr(_thread, "resize", None) or _engine()
        resize(pixels, out)


def _engine() -> Callable[[Pixels, Pixels], None]:
    """This thread's resizer."""
    # It imports Pillow, which nobody needs who takes images as they are stored.
    from cykooz_resizer import (  # type: ignore[import-untyped]
        FilterType,
        ImageData,
        PixelType,
        ResizeAlg,
        ResizeOptions,
        Resizer,
    )

    engine, options = Resizer(), ResizeOptions(ResizeAlg.convolution(FilterType.bilinear))
    kinds = {1: PixelType.U8, 3: PixelType.U8x3}

    def resize(pixels: Pixels, out: Pixels) -> None:
        kind = kinds[out.shape[2]]
        source = ImageData(pixels.shape[1], pixels.shape[0], kind, pixels.tobytes())
        target = ImageData(out.shape[1], out.shape[0], kind)
        engine.resize(source, target, options)
        out[...] = np.frombuffer(target.get_buffer(), np.uint8).reshape(out.shape)

    _thread.resize = resize
    return resize
