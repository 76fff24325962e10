"""A stored image to the pixels that ``records`` hands out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardfeed.decoding import ImageDecoder, Pixels, RecordProblem
from shardfeed.resizing import cut_and_resize
from shardfeed.sampling.boxes import shown_boxes


@dataclass(frozen=True)
class PixelOptions:
    """What becomes of a stored image.

    Attributes:
        stored: Height and width of every stored image; None = they vary.
        channels: 1 or 3.
        size: Height and width of the pixels handed out; None = of the stored image.
        crop: None, "center" or "random_resized".
        crop_seed: 64 bits, for "random_resized".
    """

    stored: tuple[int, int] | None
    channels: int
    size: tuple[int, int] | None = None
    crop: str | None = None
    crop_seed: int = 0

    def pixels(self, image: bytes, size: tuple[int, int] | None, number: int, decode: ImageDecoder) -> Pixels:
        """uint8[h, w, c] of the ``image`` of record ``number``; ``size``: what the record says.

        Raises:
            RecordProblem: the image does not decode to its size.
        """
        stored = self.stored or size
        if stored is None:
            raise RecordProblem("size", "height and width", "none")
        whole = np.empty((*stored, self.channels), np.uint8)
        decode(image, whole.shape, whole)
        shown = self.size or stored
        if self.crop is None and shown == stored:
            return whole
        out = np.empty((*shown, self.channels), np.uint8)
        (box,) = shown_boxes(self.crop, np.array([stored]), np.array([number]), self.crop_seed)
        cut_and_resize(whole, box, out)
        return out
