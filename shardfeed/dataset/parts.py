"""Parts of a split, ``"train[:10%]"``: ranges of its records in the stored order.

Records are stored in the order of hashes of their keys, so any range is a fair sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from shardfeed import storage
from shardfeed.errors import COPY_OR_REBUILD, DatasetError, UsageError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import Manifest
from shardfeed.format.record_index import DTYPE, INDEX_HEADER_BYTES, ITEM_BYTES, parse_header

_BOUND = r"(-?[0-9]{1,18}|-?[0-9]{1,3}(?:\.[0-9]{1,9})?%)?"
_SLICE = re.compile(rf"\[{_BOUND}:{_BOUND}\]")
_ALLOWED = "[start:stop], each a record number, a percentage from -100 % to 100 %, or left out"


def whole_name(split: str) -> str:
    """Name of the split that ``split`` is, or is a part of."""
    return split.partition("[")[0]


def part_range(split: str, records: int) -> range:
    """The records that ``split`` names, of a split of ``records``: all without a slice.

    A percentage is rounded to the closest record, a half to the even one, as TensorFlow Datasets
    does by default. Negative bounds count from the end.

    Raises:
        UsageError: not a slice, bounds outside of the split, or no record between them.
    """
    name = whole_name(split)
    if name == split:
        return range(records)
    match = _SLICE.fullmatch(split[len(name) :])
    if match is None:
        raise _wrong(split, f"expected {_ALLOWED}, such as {clip(name)}[:10%] or {clip(name)}[1000:2000]")
    start, stop = (
        _bound(split, text, records, default) for text, default in zip(match.groups(), (0, records), strict=True)
    )
    if start >= stop:
        raise _wrong(
            split, f"no record lies from {start:,} to {stop:,}. Give a wider part, with a start below the stop"
        )
    return range(start, stop)


def _bound(split: str, text: str | None, records: int, default: int) -> int:
    if not text:
        return default
    if text.endswith("%"):
        percent = Fraction(text[:-1])
        if abs(percent) > 100:
            raise _wrong(split, f"{text} is not from -100% to 100%")
        number = round(percent * records / 100)
    else:
        number = int(text)
        if abs(number) > records:
            raise _wrong(split, f"{text} is beyond its {records:,} records. Give numbers from {-records} to {records}")
    return number + records if text.startswith("-") else number


def _wrong(split: str, what: str) -> UsageError:
    return UsageError(f"split {clip(repr(split))}: {what}.")


class ClassCounts(Mapping[str, int]):
    """Records by class name of the range ``part`` of a split, counted when they are asked for.

    Raises:
        UsageError: on first use, if records have several labels, or the dataset has no index of
            classes.
        DatasetError: on first use, if that index is not this dataset's.
    """

    def __init__(self, url: str, manifest: Manifest, split: str, part: range) -> None:
        self._url, self._manifest, self._split, self._part = url, manifest, split, part
        self._found: dict[str, int] | None = None

    def _counts(self) -> dict[str, int]:
        if self._found is None:
            self._found = self._read()
        return self._found

    def _read(self) -> dict[str, int]:
        import numpy as np

        manifest, name = self._manifest, naming.split_classes_name(whole_name(self._split))
        if manifest.label_kind == "none":
            return {}
        if manifest.label_kind == "multi":
            raise UsageError(
                f"class counts of {clip(self._split)} are not known: records have several labels, which only the tables "
                f"(*.parquet) list. Count them there, or use those of {clip(whole_name(self._split))}."
            )
        if name not in {file.file for file in manifest.files}:
            raise UsageError(
                f"class counts of {clip(self._split)} are not known: the dataset at {clip(self._url)} has no {clip(name)}. "
                f"Use those of {clip(whole_name(self._split))}, or build the dataset again, which writes it."
            )
        store = storage.open_store(self._url)
        try:
            header = parse_header(store.read_range(name, 0, INDEX_HEADER_BYTES), "classes")
            if header.fingerprint != manifest.fingerprint:
                raise ValueError(f"fingerprint {header.fingerprint}, expected {manifest.fingerprint}")
            size = ITEM_BYTES["classes"]
            data = store.read_range(name, INDEX_HEADER_BYTES + size * self._part.start, size * len(self._part))
            counts = np.bincount(np.frombuffer(data, DTYPE["classes"]), minlength=len(manifest.classes)).tolist()
            if sum(counts) != len(self._part) or len(counts) != len(manifest.classes):
                raise ValueError(f"{sum(counts)} records in {len(counts)} classes")
        except storage.UnreadableError:  # which is a ValueError
            raise
        except (ValueError, storage.NotFoundError) as error:
            raise DatasetError(
                f"{clip(storage.join_url(self._url, name))} is damaged: {error}. {COPY_OR_REBUILD}"
            ) from None
        return dict(zip(manifest.classes, counts, strict=True))

    def __getitem__(self, name: str) -> int:
        return self._counts()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts())

    def __len__(self) -> int:
        return len(self._counts())
