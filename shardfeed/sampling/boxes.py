"""Where images are cropped, in NumPy.

A random box depends on (seed, position in the order of all hosts) and nothing else, by the hash
that also gives the order. So a resumed stream has the same crops to the pixel, on another number
of hosts too.

``random_resized`` draws as torchvision's RandomResizedCrop does: an area, uniform in 8 to 100 % of
the image, and a ratio of width to height, log-uniform in 3/4 to 4/3. It draws up to ten times
until the box fits; otherwise it takes the largest central box of an allowed ratio. Flips and
colours belong into the model, where they cost nothing.

``shardfeed.tfdata.crops`` says the same in TensorFlow; a test compares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.sampling.blocks import Ints
from shardfeed.sampling.order import GOLDEN, mix

TRIES = 10
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
UNIT = 2.0**-53  # a draw has the 53 bits of a float64
_DRAWS = 2 * TRIES + 2

Words = NDArray[np.uint64]


def shown_boxes(crop: str | None, sizes: Ints, positions: Ints, seed: int) -> list[list[int] | None]:
    """The box of each image, by ``center_boxes`` or ``random_boxes``; None = the whole image."""
    if crop is None:
        return [None] * len(sizes)
    boxes: list[list[int] | None]
    boxes = (center_boxes(sizes) if crop == "center" else random_boxes(sizes, positions, seed)).tolist()
    return boxes


def center_side(short: Any) -> Any:
    """Side of the central square, from the short side: an int, an array or a tensor."""
    return (7 * short + 4) // 8  # a side of 1 gives 1


def center_boxes(sizes: Ints) -> Ints:
    """Central squares int64[n, 4] (top, left, height, width) of images of ``sizes`` int64[n, 2].

    Each side is 0.875 of the image's shorter side, rounded half up (224 of 256).
    """
    side = center_side(sizes.min(axis=1, keepdims=True))
    return np.concatenate([(sizes - side) // 2, side, side], axis=1)


def random_boxes(sizes: Ints, positions: Ints, seed: int) -> Ints:
    """Boxes int64[n, 4] at stream ``positions`` int64[n]; ``seed`` is ``order.crop_seed``."""
    size = sizes.astype(np.float64)
    height, width = size[:, :1], size[:, 1:]
    draws = (_words(positions, seed, range(_DRAWS)) >> np.uint64(11)).astype(np.float64) * UNIT
    area = height * width * (AREA[0] + (AREA[1] - AREA[0]) * draws[:, :TRIES])
    low, high = np.log(RATIO)
    ratio = np.exp(low + (high - low) * draws[:, TRIES : 2 * TRIES])
    tall, wide = np.rint(np.sqrt(area / ratio)), np.rint(np.sqrt(area * ratio))
    fits = (tall >= 1) & (wide >= 1) & (tall <= height) & (wide <= width)
    first = fits.argmax(axis=1)[:, None]
    drawn = np.concatenate([np.take_along_axis(sides, first, axis=1) for sides in (tall, wide)], axis=1)
    allowed = np.concatenate(
        [
            np.minimum(height, np.maximum(np.rint(width / RATIO[0]), 1)),
            np.minimum(width, np.maximum(np.rint(height * RATIO[1]), 1)),
        ],
        axis=1,
    )
    fitting = fits.any(axis=1, keepdims=True)
    box = np.where(fitting, drawn, np.minimum(size, allowed))
    corner = np.where(fitting, np.floor(draws[:, 2 * TRIES :] * (size - box + 1)), np.floor((size - box) / 2))
    boxes: Ints = np.concatenate([corner, box], axis=1).astype(np.int64)
    return boxes


def map_seeds(positions: Ints, seed: int) -> Words:
    """Seeds uint64[n, 2] for what a user does with the image, and with the batch, at a position.

    They are the draws behind those of ``random_boxes``, so all of them are independent.
    """
    return _words(positions, seed, range(_DRAWS, _DRAWS + 2))


def _words(positions: Ints, seed: int, numbers: range) -> Words:
    """uint64[n, draws]: each by hash(seed, position, number of the draw)."""
    base = mix(np.uint64(seed) + (positions + 1).astype(np.uint64) * np.uint64(GOLDEN))
    steps = np.arange(numbers.start + 1, numbers.stop + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return mix(base[:, None] + steps)
