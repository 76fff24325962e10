"""Records of a window to pixels: found, decoded, cut and resized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.blocks import BlockReader, LoadedBlock, LoadedRecord
from shardfeed.arrays.parsing import images_and_classes, keys_and_sizes
from shardfeed.decoding import Bytes, ImageDecoder, Pixels, RecordProblem
from shardfeed.resizing import cut_and_resize
from shardfeed.sampling.blocks import Ints
from shardfeed.sampling.boxes import center_boxes, random_boxes

Columns = dict[str, NDArray[Any]]
"""Of a batch: image, label and, if they are found, key and size."""


class Examples(NamedTuple):
    """A window's records in the order of its runs: stored ``images``, and the other ``columns``.

    Those are ``label``, int32[n], and where something needs them ``key``, object[n] of bytes, and
    ``size``, int64[n, 2], stored height and width.
    """

    images: list[Bytes]
    columns: Columns
    blocks: list[LoadedBlock]

    def record(self, number: int) -> LoadedRecord:
        """Record number ``number``."""
        for block in self.blocks:
            if number < len(block):
                return block[number]
            number -= len(block)
        raise IndexError(number)


@dataclass(frozen=True)
class ImageOptions:
    """What becomes of a stored image.

    Attributes:
        stored: Height and width of every stored image; None = they vary.
        crop: None, "center" or "random_resized".
        crop_seed: ``order.crop_seed``, for "random_resized".
    """

    stored: tuple[int, int] | None
    crop: str | None = None
    crop_seed: int = 0

    @classmethod
    def needed(
        cls, stored: tuple[int, int] | None, shown: tuple[int, int], crop: str | None, crop_seed: int = 0
    ) -> ImageOptions | None:
        """None if images of the size ``stored`` are to be ``shown`` as they are."""
        return None if crop is None and shown == stored else cls(stored, crop, crop_seed)

    def boxes(self, sizes: Ints, positions: range) -> Sequence[Any]:
        """The part to show of each image of ``sizes`` int64[n, 2]; None = all of it."""
        if self.crop is None:
            return [None] * len(sizes)
        if self.crop == "center":
            boxes = center_boxes(sizes)
        else:
            boxes = random_boxes(sizes, np.array(positions, np.int64), self.crop_seed)
        return boxes.tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RecordDecoder:
    """Finds image and class (one of ``classes``) in records, and decodes images into batches.

    Attributes:
        shape: Height, width and channels of each row of a batch.
        options: None = images are stored in this shape and shown whole.
        columns: Keys and sizes are found too.
    """

    reader: BlockReader
    decode: ImageDecoder
    shape: tuple[int, int, int]
    classes: int
    options: ImageOptions | None = None
    columns: bool = False

    def no_rows(self) -> Columns:
        """The columns of a batch without rows."""
        columns: Columns = {"image": np.empty((0, *self.shape), np.uint8), "label": np.empty(0, np.int32)}
        if self.columns:
            columns |= {"key": np.empty(0, object), "size": np.empty((0, 2), np.int64)}
        return columns

    def examples(self, blocks: list[LoadedBlock]) -> Examples:
        """The columns of each record.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        images, classes = images_and_classes(blocks, self.reader)
        found = Examples(images, {"label": classes.astype(np.int32)}, blocks)
        for number in np.flatnonzero((classes < 0) | (classes >= self.classes))[:1].tolist():
            problem = RecordProblem("class", f"0 to {self.classes - 1}", str(classes[number]))
            raise self.reader.damage(found.record(number), problem)
        if self.columns:
            keys, sizes = keys_and_sizes(blocks, self.reader)
            found.columns.update(key=np.array(keys, object), size=sizes)
        return found

    def pixels(self, examples: Examples, numbers: Sequence[int], images: Pixels, positions: range) -> None:
        """Decode the ``examples`` of ``numbers`` into the rows of ``images``.

        ``positions`` are those of the rows in the whole stream.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        if self.options is not None:
            self._shown(examples, numbers, images, positions, self.options)
            return
        for row, number in enumerate(numbers):
            try:
                self.decode(examples.images[number], self.shape, images[row])
            except RecordProblem as problem:
                raise self.reader.damage(examples.record(number), problem) from None

    def _shown(
        self, examples: Examples, numbers: Sequence[int], images: Pixels, positions: range, options: ImageOptions
    ) -> None:
        """``pixels`` for images that are cut or resized."""
        if options.stored is not None:
            sizes = np.tile(np.array(options.stored, np.int64), (len(numbers), 1))
        else:
            sizes = examples.columns["size"][numbers]
        boxes = options.boxes(sizes, positions)
        for row, (number, size, box) in enumerate(zip(numbers, sizes.tolist(), boxes, strict=True)):
            try:
                whole = self.decode(examples.images[number], (*size, self.shape[2]), None)
            except RecordProblem as problem:
                raise self.reader.damage(examples.record(number), problem) from None
            cut_and_resize(whole, box, images[row])
