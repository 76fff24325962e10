"""Records of a window to pixels: found, decoded, cut and resized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.any_record import RecordForm, any_columns
from shardfeed.arrays.blocks import BlockReader, LoadedBlock, LoadedRecord, key_of
from shardfeed.arrays.parsing import images_and_classes, keys_and_sizes
from shardfeed.arrays.user_map import Empty, MappedRows, UserMap
from shardfeed.decoding import Bytes, ImageDecoder, Pixels, RecordProblem
from shardfeed.errors import clip
from shardfeed.resizing import cut_and_resize
from shardfeed.sampling.blocks import Ints
from shardfeed.sampling.boxes import map_seeds, shown_boxes

if TYPE_CHECKING:
    from shardfeed.arrays.decoded_cache import DecodedImages

Columns = dict[str, NDArray[Any]]
"""Of a batch: image, label and, if they are found, key and size; of a window: all but the image."""
Images = Pixels | MappedRows


class Examples(NamedTuple):
    """A window's records in the order of its runs: ``images``, and the other ``columns``.

    Images are bytes as stored, or pixels of ``kept``. The columns are ``label``, int32[n], and
    where something needs them ``key``, object[n] of bytes, and ``size``, int64[n, 2], stored
    height and width. In datasets of another ``RecordForm`` the others are those of that form.
    ``numbers``: those of the records in the split, for ``kept``.
    """

    images: Sequence[Bytes | Pixels | None]
    columns: Columns
    blocks: list[LoadedBlock]
    numbers: Ints | None = None

    def where(self, number: int) -> str:
        """Record number ``number`` for an error, by its key."""
        key = self.columns["key"][number] if "key" in self.columns else key_of(self.record(number))
        return f"the record with the key {clip(key)}"

    def record(self, number: int) -> LoadedRecord:
        """Record number ``number``."""
        for block in self.blocks:
            if number < len(block):
                return block[number]
            number -= len(block)
        raise IndexError(number)


@dataclass(frozen=True)
class DecodeOptions:
    """What becomes of a stored image.

    Attributes:
        stored: Height and width of every stored image; None = they vary.
        crop: None, "center" or "random_resized".
        seed: ``order.crop_seed``, for random crops and ``map``.
        map: The user's function for each image.
        kept: Where decoded images are kept; before they are cropped if crops are random.
    """

    stored: tuple[int, int] | None
    crop: str | None = None
    seed: int = 0
    map: UserMap | None = None
    kept: DecodedImages | None = None


@dataclass(frozen=True)
class RecordDecoder:
    """Finds image and labels in records, and decodes images into batches.

    Attributes:
        form: Which labels and extra columns records have.
        shape: Height, width and channels of an image, before ``map``.
        options: None = images are stored in this shape and shown as they are.
        keyed: Keys and sizes are found too.
    """

    reader: BlockReader
    decode: ImageDecoder
    shape: tuple[int, int, int]
    form: RecordForm
    options: DecodeOptions | None = None
    keyed: bool = False

    def no_rows(self) -> Columns:
        """The columns of a batch without rows."""
        images: NDArray[Any] = np.empty((0, *self.shape), np.uint8)
        if self.options is not None and self.options.map is not None:
            mapped = self.options.map(np.zeros(self.shape, np.uint8), 0, lambda: "an image of zeros")
            images = np.asarray(mapped)[None][:0]
        return {"image": images, **self.form.empty(0, keyed=self.keyed)}

    def images(self, count: int, empty: Empty) -> Images:
        """Place for the images of a batch."""
        if self.options is not None and self.options.map is not None:
            return MappedRows(count, empty)
        return empty((count, *self.shape), np.uint8)

    def examples(self, blocks: list[LoadedBlock]) -> Examples:
        """The columns of each record.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        if not self.form.plain:
            found_images, columns = any_columns(blocks, self.reader, self.form)
            if not self.keyed:
                del columns["key"], columns["size"]
            return Examples(found_images, columns, blocks)
        images, classes = images_and_classes(blocks, self.reader)
        found = Examples(images, {"label": classes.astype(np.int32)}, blocks)
        for number in np.flatnonzero((classes < 0) | (classes >= self.form.classes))[:1].tolist():
            problem = RecordProblem("class", f"0 to {self.form.classes - 1}", str(classes[number]))
            raise self.reader.damage(found.record(number), problem)
        if self.keyed:
            keys, sizes = keys_and_sizes(blocks, self.reader)
            found.columns.update(key=np.array(keys, object), size=sizes)
        return found

    def pixels(self, examples: Examples, numbers: Sequence[int], images: Images, rows: range, positions: range) -> None:
        """Decode the ``examples`` of ``numbers`` into ``rows`` of ``images``.

        ``positions`` are those of the examples in the whole stream.

        Raises:
            DatasetError: names the record that is not as it should be.
            UsageError: ``map`` failed; names the record.
        """
        if self.options is not None:
            self._shown(examples, numbers, images, rows, np.array(positions, np.int64), self.options)
            return
        for row, number in zip(rows, numbers, strict=True):
            try:
                self.decode(examples.images[number], self.shape, images[row])  # type: ignore[arg-type,index]
            except RecordProblem as problem:
                raise self.reader.damage(examples.record(number), problem) from None

    def _shown(
        self,
        examples: Examples,
        numbers: Sequence[int],
        images: Images,
        rows: range,
        positions: Ints,
        options: DecodeOptions,
    ) -> None:
        """``pixels`` for images that are not only decoded."""
        if options.stored is not None:
            sizes = np.tile(np.array(options.stored, np.int64), (len(numbers), 1))
        else:
            sizes = examples.columns["size"][numbers]
        boxes = shown_boxes(options.crop, sizes, positions, options.seed)
        seeds = map_seeds(positions, options.seed)[:, 0].tolist() if options.map is not None else boxes
        for row, number, size, box, seed in zip(rows, numbers, sizes.tolist(), boxes, seeds, strict=True):
            image = examples.images[number]
            whole = options.crop == "random_resized"  # of kept images
            if isinstance(image, np.ndarray):
                box = box if whole else None
            else:
                try:
                    image = self.decode(image, (*size, self.shape[2]), None)  # type: ignore[arg-type]
                except RecordProblem as problem:
                    raise self.reader.damage(examples.record(number), problem) from None
                if options.kept is not None:
                    if not whole:
                        image, box = self._cut(image, box), None
                    elif image.base is not None:  # raw pixels, a view of their block
                        image = image.copy()
                    assert examples.numbers is not None
                    options.kept.keep(int(examples.numbers[number]), image)
            if options.map is None:
                cut_and_resize(image, box, images[row])  # type: ignore[index]
                continue
            where = partial(examples.where, number)
            assert isinstance(images, MappedRows)
            images.put(row, options.map(self._cut(image, box), seed, where), where)

    def _cut(self, image: Pixels, box: Any) -> Pixels:
        """A new image of ``shape``."""
        out = np.empty(self.shape, np.uint8)
        cut_and_resize(image, box, out)
        return out
