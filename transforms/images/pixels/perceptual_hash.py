"""Two perceptual fingerprints of a picture: of 64 bits to find candidates, of 256 to confirm them.

The whole picture, as it was decoded, is averaged to 32 x 32 cells of gray and turned upright. Their
levels become logarithms: a brighter picture then adds a constant, and white areas that it clips
weigh less. A bit says whether a coefficient of the cells' cosine transform is above the median. The
64 bits are the lowest 8 x 8 frequencies, the 256 are the frequencies 1 to 16 in both directions
(those of Facebook's PDQ).

All arithmetic is exact: integers, also where they are stored as floats. So neither the processor
nor the size of a stored image changes a bit. What could change one is the scale at which a JPEG is
decoded; ``HASH_SIDE`` fixes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from shardfeed.transforms.images.pixels.memory import image_of
from shardfeed.transforms.images.pixels.resize import shrink

if TYPE_CHECKING:
    from numpy.typing import NDArray

HASH_SIDE = 224  # pixels; a JPEG is hashed at the scale at which a build to this size, the default, decodes it
ROWS = 160  # of a JPEG at least that are averaged, every n-th; with all of them a build takes 2 % longer
CELLS = 32  # a side
FLAT = 3  # levels of 255; a picture whose cells deviate by less on average has no hash
WAVES = 100  # of 256; a picture of fewer, such as a gradient, has no hash: what is absent tells no two apart


class Samples:
    """The cells of up to ``most`` pictures, which are fingerprinted together.

    Not thread-safe.

    Attributes:
        count: Number of pictures that are kept; the next one is noted behind them.
    """

    def __init__(self, most: int) -> None:
        self._cells = np.empty((most, CELLS, CELLS, 4), np.uint8)  # RGB, and a byte that is not used
        self._images = [image_of(cells, "RGB", (CELLS, CELLS)) for cells in self._cells]
        self._together = image_of(self._cells, "RGB", (CELLS, most * CELLS))
        self.count = 0

    def take_decoded(self, pixels: NDArray[np.uint8], turn: Image.Transpose | None) -> None:
        """Notes a picture uint8[height, width, 4] or [height, width] as the next one.

        ``turn``: what turns it upright.
        """
        height, width = pixels.shape[:2]
        step = max(1, height // ROWS)
        mode = "L" if pixels.ndim == 2 else "RGB"
        self.take_image(image_of(pixels, mode, (width, height // step), step * pixels.strides[0]), turn)

    def take_image(self, image: Image.Image, turn: Image.Transpose | None) -> None:
        """Notes an ``L`` or ``RGB`` image, as ``take_decoded`` does."""
        if turn is None and image.mode == "RGB":
            shrink(image, self._images[self.count])
        else:
            shrink(image, small := Image.new(image.mode, (CELLS, CELLS)))
            small = small.convert("RGB")
            self._cells[self.count, ..., :3] = np.asarray(small if turn is None else small.transpose(turn))

    def take_from(self, other: Samples) -> None:
        """Notes the picture that ``other`` noted as its next one."""
        self._cells[self.count] = other._cells[other.count]

    def hashes(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_]]:
        """Of the first ``count`` pictures: uint64[n], uint64[n, 4], and which tell something."""
        gray = np.asarray(self._together.convert("L"))
        return fingerprints(gray.reshape(-1, CELLS, CELLS)[: self.count])


def fingerprints(cells: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_]]:
    """Fingerprints of cells uint8[n, 32, 32]: uint64[n], uint64[n, 4], and which tell something."""
    # Products of at most 8 and 10 bits, 32 of them: exact as float32, then as float64.
    lines = np.matmul(_LOGARITHMS.take(cells), _COSINES.T).astype(np.float64)
    waves = np.matmul(_COSINES.astype(np.float64), lines)
    wide = cells.reshape(len(cells), -1).astype(np.int64)
    deviation = (wide * wide).sum(1) * CELLS**2 - wide.sum(1) ** 2  # variance x 32**4
    fine = waves[:, 1:17, 1:17]
    structured = np.count_nonzero(fine, axis=(1, 2)) >= WAVES
    return _bits(waves[:, :8, :8])[:, 0], _bits(fine), structured & (deviation >= FLAT**2 * CELLS**4)


def _bits(waves: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A bit per number: whether it is above the median of its picture."""
    flat = waves.reshape(len(waves), -1)
    middle = flat.shape[1] // 2
    return (
        np.packbits(flat > np.partition(flat, middle - 1, 1)[:, middle - 1 : middle], axis=1).view(">u8").astype("u8")
    )


def _cosines() -> NDArray[Any]:
    """The 17 lowest waves of the cosine transform of 32 numbers, x 512."""
    steps = np.arange(CELLS)
    return np.round(512 * np.cos(np.pi * (2 * steps + 1) * steps[:17, None] / (2 * CELLS))).astype(np.float32)


_COSINES = _cosines()
_LOGARITHMS = np.round(90 * np.log1p(np.arange(256) / 16)).astype(np.float32)  # of levels: 0 to 255
