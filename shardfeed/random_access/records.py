"""``records``: a split as a sequence that any loader takes.

    ds = shardfeed.records("out/", "train")
    torch.utils.data.DataLoader(ds, 256, shuffle=True, num_workers=8)
    grain.MapDataset.source(ds).shuffle(1).batch(256)

Nothing of theirs is imported: loaders ask for ``len``, ``[i]`` and, to read a batch at once,
``__getitems__``. To read a whole split in the order of training, ``array_batches`` is faster: it
reads blocks, and no loader copies its batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from shardfeed.arguments import choice, flag, height_width, integer, unexpected
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.parts import whole_name
from shardfeed.dataset.shown_columns import chosen_names
from shardfeed.decoding import ImageDecoder, RecordProblem, image_decoder
from shardfeed.errors import UsageError, clip
from shardfeed.format.tfrecord import CRC_BYTES, HEADER_BYTES
from shardfeed.random_access.fields import FieldParser
from shardfeed.random_access.pixels import PixelOptions
from shardfeed.random_access.reader import SplitReader
from shardfeed.sampling.order import mix_one, stream_seed
from shardfeed.warning import warn

Item = dict[str, Any]
Labels = NDArray[np.int32]

_COLUMNS = ("image", "label", "key")
_READ_AHEAD = 64  # records that an iteration reads at once


class Records:
    """What ``records`` gives: a sequence of dicts, one per record. Indexing follows ``list``.

    A slice is again such a sequence, without a copy. Threads may share one, and other processes get
    it by fork or by pickle; each process opens the files anew.

    Attributes:
        classes: Names of the classes; a label is an index into them.
        fingerprint: Fingerprint of the dataset; of a part of a split ("train[:10%]") with
            "[start:stop]" behind it.
    """

    def __init__(
        self,
        reader: SplitReader,
        parse: FieldParser,
        decode: ImageDecoder,
        columns: tuple[str, ...],
        pixels: PixelOptions | None,
    ) -> None:
        self.classes, self.fingerprint = parse.classes, reader.fingerprint
        self._reader, self._parse, self._decode = reader, parse, decode
        self._pixels, self._is_single = pixels, parse.label_kind == "single"
        self._show(range(len(reader)), columns)
        self._labels: Labels | None = None

    # another process maps the labels anew
    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_labels": None}

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> Item | Records:
        if isinstance(index, slice):
            return self._view(self._numbers[index], self._columns)
        number = self._number(index)
        return self._item(number, *self._reader.read(number))

    def __getitems__(self, indices: Sequence[int]) -> list[Item]:
        """Records in the order of ``indices``; in a bucket, one request reads neighbours."""
        try:
            numbers = list(map(self._numbers.__getitem__, indices))
        except (IndexError, TypeError):
            numbers = list(map(self._number, indices))  # which raises, and says why
        found: list[Item] = [{}] * len(numbers)
        for place, (framed, listed) in self._reader.read_all(numbers):
            found[place] = self._item(numbers[place], framed, listed)
        return found

    def __iter__(self) -> Iterator[Item]:
        for first in range(0, len(self), _READ_AHEAD):
            numbers = self._numbers[first : first + _READ_AHEAD]
            stored = dict(self._reader.read_all(numbers))
            for place, number in enumerate(numbers):
                yield self._item(number, *stored[place])

    def __repr__(self) -> str:
        many = f"{len(self):,} of {len(self._reader):,}" if len(self) < len(self._reader) else f"{len(self):,}"
        return (
            f"Records({many} records of {self._reader.split} in {clip(self._reader.url)}: {', '.join(self._columns)}; "
            f"fingerprint {self.fingerprint})"
        )

    @property
    def labels(self) -> Labels:
        """Class index of each record, int32[n], read-only; no image is read.

        Of a local dataset it is mapped and costs no memory. In a bucket the file of classes is
        fetched once per process, 4 bytes per record of the split. A dataset without the file has to
        read each record.

        Raises:
            UsageError: records have several labels, or none.
        """
        if self._parse.label_kind != "single":
            remedy = (
                "Take them from ds[i]['label'], or from the tables (*.parquet)." if self.classes else "Leave them out."
            )
            raise UsageError(
                f"labels: a record of {clip(self._reader.url)} has not one label but "
                f"{'any number' if self.classes else 'none'}. {remedy}"
            )
        if self._labels is None:
            self._labels = self._classes()
        return self._labels

    @property
    def keys(self) -> Keys:
        """Key of each record, read when it is asked for; no image is decoded."""
        return Keys(self._view(self._numbers, ("key",)))

    def _view(self, numbers: range, columns: tuple[str, ...]) -> Records:
        view = copy(self)
        view._show(numbers, columns)
        return view

    def _show(self, numbers: range, columns: tuple[str, ...]) -> None:
        self._numbers, self._columns = numbers, columns
        self._is_usual = self._parse.plain and columns == _COLUMNS
        # Half of the time of a read that does not decode is Python's, so this is not asked at each.
        self._known = self._parse.known if self._parse.plain and "size" not in columns else None

    def _number(self, index: int) -> int:
        """Number in the split. Raises IndexError, and TypeError for what is no index."""
        try:
            return self._numbers[index]
        except IndexError:
            n = len(self)
            allowed = f"{-n} to {n - 1}" if n else "none, it is empty"
            raise IndexError(
                f"record {clip(index, 40)} of {n:,} of {self._reader.split}: allowed are {allowed}"
            ) from None
        except TypeError:
            raise TypeError(
                f"record {clip(repr(index), 40)}: expected an integer or a slice. Several records are __getitems__([…]), the "
                "labels of all are .labels, the keys .keys."
            ) from None

    def _item(self, number: int, framed: bytes, listed: int | None) -> Item:
        """The item of a record that is ``listed`` with a class; None = it is not listed."""
        try:
            every: Item
            if self._known is None:
                found = self._parse.everything(framed)
                if found is None:
                    raise self._reader.explained(number)
                every, size = found
                every["size"] = np.array(size, np.int64)
                label = every.get("label", 0)
            else:
                fields = self._known(framed) or self._parse(framed)
                if fields is None:
                    raise self._reader.explained(number)
                image, label, key, size = fields
                every = {"image": image, "label": label, "key": key}
            if listed is not None and self._is_single and listed != label:
                self._reader.opened.check_classes()
                raise RecordProblem("class", f"{listed} as in {self._reader.split}.classes", str(label))
            if self._pixels is not None and "image" in self._columns:
                every["image"] = self._pixels.pixels(every["image"], size, number, self._decode)
        except RecordProblem as problem:
            raise self._reader.damage(number, framed[HEADER_BYTES:-CRC_BYTES], problem) from None
        return every if self._is_usual else {column: every[column] for column in self._columns}

    def _classes(self) -> Labels:
        if not self._reader.indexed:
            every = self._view(self._numbers, ("label",))
            found = np.fromiter((item["label"] for item in every), np.int32, len(self))
            found.flags.writeable = False
            return found
        numbers = self._numbers
        column: Labels = self._reader.all_classes()
        if not numbers:
            return column[:0]
        if numbers.step > 0:
            return column[numbers.start : numbers.stop : numbers.step]
        return column[numbers[-1] : numbers[0] + 1 : -numbers.step][::-1]


class Keys(Sequence[str]):
    """Keys of ``Records``. Indexing follows ``list``; a slice is again a lazy sequence."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Keys: ...
    def __getitem__(self, index: int | slice) -> str | Keys:
        if isinstance(index, slice):
            return Keys(self._records[index])
        return str(self._records[index]["key"])

    def __iter__(self) -> Iterator[str]:
        return (item["key"] for item in self._records)

    def __repr__(self) -> str:
        return f"Keys({self._records!r})"


def records(
    dataset: DatasetInfo | str | os.PathLike[str],
    split: str,
    *,
    decode: bool = True,
    image_size: int | tuple[int, int] | None = None,
    crop: str | None = None,
    columns: Sequence[str] | None = None,
    seed: int | None = None,
) -> Records:
    """The records of one split, by number: a sequence for PyTorch's DataLoader, Grain and others.

    ``records(…)[i]`` is a dict: ``image`` uint8[height, width, channels], 0 to 255; ``label``, an
    int, the index into ``info.classes``; ``key``, a str, the path below the input root. If records
    have several labels, ``label`` is float32[classes] with a 1 for each; without labels it is not
    there. Extra columns (``info.columns``) are there under their own names: a value, a list of
    texts, or an array of the record's own length. Record
    ``i`` is the same in each process and at each time, and images may vary in size. Each read
    compares the record's checksums.

    Args:
        dataset: What ``shardfeed.info`` gave, or the folder or address that it takes.
        split: Name of the split, or a part of it such as "train[:10%]".
        decode: False = ``image`` is the bytes of the stored image.
        image_size: Height and width of ``image`` (an int: both). None: as stored. Images are
            resized bilinearly with antialiasing and without keeping their ratio; choose a ``crop``
            to keep it. A value may differ by 1 from that of ``load``.
        crop: None; "center": the central square of 0.875 × the short side; "random_resized": 8 to
            100 % of the area at a ratio of 3/4 to 4/3. Crops are resized to ``image_size`` or the
            stored size.
        columns: What an item holds, in this order: of ``image``, ``label``, ``key``, ``size``
            (stored height and width) and the extra columns; None = all but ``size``.
        seed: For crop="random_resized", which needs it. A crop depends on (seed, i) alone, so every
            pass shows the same part. Augment behind the loader for another one in each pass.

    Raises:
        DatasetError: no dataset is there; a shard or an index file is absent, of another size, or
            does not belong to the dataset. While reading: names file, record, byte and key, what
            was expected and what was found.
        UsageError: a wrong argument; no such split.
        StorageError: the store kept failing.

    Warns:
        UserWarning: the dataset has no index files, as those of older versions.
    """
    found = opened(dataset)
    chosen = found.splits[split]
    whole = whole_name(split)
    names = _names(columns, found)
    pixels: PixelOptions | None = _pixel_options(found, image_size, crop, seed)
    if not flag("decode", decode):
        if image_size is not None or crop is not None:
            raise UsageError("decode=False gives stored bytes: leave image_size and crop out, or decode.")
        pixels = None
    reader = SplitReader(found, found.splits[whole])
    if not reader.indexed:
        warn(
            f"the dataset at {clip(found.url)} has no index to map for {whole}. The first read from a shard reads its text "
            "index, in each process, and ds.labels reads every record. Build the dataset again to have one."
        )
    parse = FieldParser(found.classes, found.label_kind, found.columns)
    every = Records(reader, parse, image_decoder(found.manifest.image.format), names, pixels)
    if whole == split:
        return every
    part = every[chosen.part.start : chosen.part.stop]
    part.fingerprint = chosen.fingerprint
    return part


def _names(columns: object, found: DatasetInfo) -> tuple[str, ...]:
    every = tuple(name for name in _COLUMNS if name != "label" or found.label_kind != "none")
    extra = tuple(column.name for column in found.columns)
    if columns is None:
        return every + extra
    names = chosen_names(columns, (*every, "size", *extra), found)
    if not names:
        raise unexpected("columns", columns, f"one or more of {', '.join((*every, 'size', *extra))}, each once")
    return names


def _pixel_options(found: DatasetInfo, image_size: object, crop: object, seed: object) -> PixelOptions:
    height, width, channels = found.image_shape
    stored = None if height is None or width is None else (height, width)
    size = None if image_size is None else height_width("image_size", image_size)
    kind = None if crop is None else choice("crop", crop, ("center", "random_resized"))
    if kind is not None and size is None and stored is None:
        raise UsageError(
            f"crop={kind!r}: the images of the dataset at {clip(found.url)} vary in size. Pass image_size= too, for example "
            "image_size=224."
        )
    if kind != "random_resized":
        if seed is not None:
            raise UsageError(f"seed={clip(seed, 40)}: only crop='random_resized' takes a seed. The loader shuffles.")
        return PixelOptions(stored, channels, size, kind)
    if seed is None:
        raise UsageError(
            "crop='random_resized' needs a seed, for example seed=1: a crop depends on it and on the record."
        )
    return PixelOptions(stored, channels, size, kind, mix_one(stream_seed(integer("seed", seed))))
