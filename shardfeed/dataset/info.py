"""What a dataset holds, from its manifest alone: nothing is listed, no shard is opened.

A dataset exists if and only if ``manifest.json`` does. If it is absent, work in progress in the
folder tells a build that stopped from a wrong path.
"""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardfeed import storage
from shardfeed.arguments import EVALUATED, positive
from shardfeed.dataset.parts import ClassCounts, part_range, whole_name
from shardfeed.errors import DatasetError, UnknownSplitError, UsageError, clip
from shardfeed.format import naming
from shardfeed.format.columns import Column
from shardfeed.format.manifest import MAX_BYTES, Manifest, Shard, parse_manifest
from shardfeed.warning import warn
from shardfeed.words import plural

if TYPE_CHECKING:
    from shardfeed.sampling.blocks import Blocks


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """One split of a dataset, or a part of one, such as "train[:10%]".

    Attributes:
        name: Name of the split; of a part with its slice.
        num_records: Number of its records.
        bytes: Size of all its shards; of a part, of the blocks that hold its records.
        class_counts: Class name to number of records; classes without a record have 0. Those of a
            part are read from the dataset's index of classes; without one, and if records have
            several labels, asking for them is a UsageError.
        shards: The shards that hold its records, in the order of their numbers.
        part: The records of the whole split that these are, in the stored order.
        fingerprint: That of the dataset; of a part with "[start:stop]" behind it.
    """

    name: str
    num_records: int
    bytes: int
    class_counts: Mapping[str, int]
    shards: tuple[Shard, ...]
    part: range
    fingerprint: str
    # of the first shard: records before ``part``
    _skipped: int = 0

    def blocks(self) -> Blocks:
        """Blocks of these records, as ``blocks_in``."""
        from shardfeed.sampling.blocks import blocks_in  # imports NumPy

        return blocks_in(self.shards, skip=self._skipped, take=self.num_records)


class _Splits(dict[str, SplitInfo]):
    """A dict that answers a missing key with an error that lists the splits."""

    def __init__(self, url: str, manifest: Manifest) -> None:
        super().__init__({name: _split_info(url, manifest, name) for name in manifest.splits})
        self._url, self._manifest = url, manifest

    def __getitem__(self, name: str) -> SplitInfo:
        try:
            if isinstance(name, str) and whole_name(name) != name and whole_name(name) in self:
                return _split_info(self._url, self._manifest, name)
            return super().__getitem__(name)
        except (KeyError, TypeError):  # TypeError: a list, for example, has no hash
            raise UnknownSplitError(
                f"split {clip(repr(name))} is not in the dataset at {clip(self._url)}: its splits are {', '.join(self)}. "
                "Name one of these, or build the dataset again with --splits, for example train=0.9,validation=0.1."
            ) from None


@dataclass(frozen=True, repr=False)
class DatasetInfo:
    """A dataset, as its manifest describes it.

    Attributes:
        url: An absolute path, ``gs://bucket/folder`` or another remote address.
        manifest: All fields of ``manifest.json``.
    """

    url: str
    manifest: Manifest

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; a record's label is an index into them."""
        return self.manifest.classes

    @property
    def splits(self) -> Mapping[str, SplitInfo]:
        """Splits by name, and parts of them by a name with a slice.

        A slice is a range of record numbers in the stored order, or of percentages: "train[:10%]",
        "train[10%:]", "train[1000:2000]", "train[-10%:]". Percentages are rounded to the closest
        record. An unknown name raises a UsageError that lists the known ones; so does a wrong
        slice, with what is allowed.
        """
        return _Splits(self.url, self.manifest)

    @property
    def label_kind(self) -> str:
        """Labels per record: "single", "multi" (any number of classes) or "none"."""
        return self.manifest.label_kind

    @property
    def columns(self) -> tuple[Column, ...]:
        """Extra columns of the records, from the table that the build was given."""
        return tuple(map(Column.from_raw, self.manifest.columns))

    @property
    def features(self) -> Mapping[str, str]:
        """What a record holds: name of each feature, and its type with its shape.

        For example ``{"image": "uint8[224, 224, 3]", "class": "int64", "age": "int64"}``. A length
        that varies is None.
        """
        height, width, channels = self.image_shape
        several = "[None]" if self.label_kind == "multi" else ""
        found = {"image": f"uint8[{height}, {width}, {channels}]"}
        if self.label_kind != "none":
            found |= {"class": f"int64{several}", "label": f"string{several}"}
        found |= {"key": "string", "size": "int64[2]"}
        return found | {
            column.name: column.type + (str([*column.shape]) * bool(column.shape)) for column in self.columns
        }

    @property
    def image_shape(self) -> tuple[int | None, int | None, int]:
        """(height, width, channels) of stored images. Height and width are None if sizes vary."""
        image = self.manifest.image
        return image.height, image.width, image.channels

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of stored pixels per channel, 0 to 255, from a sample of the images."""
        return self.manifest.image.mean

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of stored pixels per channel, 0 to 255, from the same sample."""
        return self.manifest.image.std

    @property
    def fingerprint(self) -> str:
        """Stands for input, configuration and codecs.

        Datasets of one fingerprint hold the same records in the same order.
        """
        return self.manifest.fingerprint

    def steps_per_epoch(self, split: str, batch_size: int) -> int:
        """The ``steps_per_epoch`` of Keras' ``fit``: whole batches per pass, at least 1.

        Training batches straddle passes: the records of the last, incomplete batch open the next
        pass. Evaluation would lose that batch, and ``loss`` would be wrong. So this warns if the
        name of the split says that it is evaluated.
        """
        records, batch_size = self.splits[split].num_records, positive("batch_size", batch_size)
        if whole_name(split) in EVALUATED:
            warn(
                f"steps_per_epoch({split!r}, {batch_size}) is for training: as steps= or validation_steps= it leaves out the "
                "last batch, and loss is wrong. Leave these arguments out, or use info.evaluation_steps."
            )
        return max(1, records // batch_size)

    def evaluation_steps(self, split: str, batch_size: int) -> int:
        """Batches per host that ``load`` and ``array_batches`` make of ``split`` for evaluation.

        A distributed dataset needs them as ``steps`` of Keras' ``evaluate`` and
        ``validation_steps`` of ``fit``; without one, leave both out.
        """
        return -(-self.splits[split].num_records // positive("batch_size", batch_size))

    def class_weight(self, split: str) -> dict[int, float]:
        """Balanced weights for ``fit(class_weight=...)``.

        A class's weight is records / (classes present * records of the class). This is the formula
        of scikit-learn's "balanced": the mean over the records of ``split`` is 1. A class without
        a record in ``split`` gets 0.

        Raises:
            UsageError: records have several labels, or none; no such split.
        """
        if self.label_kind != "single":
            labels, remedy = "no labels", "Leave it out."
            if self.classes:
                labels, remedy = "several labels", "Weigh in the loss, with info.splits[split].class_counts."
            raise UsageError(
                f"class_weight: the records of {clip(self.url)} have {labels}, and Keras weighs a record by its one class. "
                f"{remedy}"
            )
        found = self.splits[split]
        counts = [found.class_counts[name] for name in self.classes]
        present = sum(count > 0 for count in counts)
        return {i: found.num_records / (present * count) if count else 0.0 for i, count in enumerate(counts)}

    def __hash__(self) -> int:  # of its own, because a manifest holds dicts
        return hash((self.url, self.fingerprint))

    def __repr__(self) -> str:
        height, width, channels = self.image_shape
        size = f"{height} × {width}" if height and width else "varying size"
        lines = [
            f"DatasetInfo({self.url!r})",
            f"  images       {size} × {channels}, {self.manifest.image.format}",
            f"  classes      {len(self.classes)}: {clip(', '.join(self.classes), 80)}",
        ]
        if self.label_kind == "multi":
            lines[-1] += " (several per record)"
        if self.columns:
            lines.append(f"  columns      {clip(', '.join(column.name for column in self.columns), 80)}")
        lines += [
            f"  split        {name}: {split.num_records:,} records, {split.bytes:,} bytes, "
            f"{plural(len(split.shards), 'shard')}"
            for name, split in self.splits.items()
        ]
        return "\n".join([*lines, f"  fingerprint  {self.fingerprint}"])


def _split_info(url: str, manifest: Manifest, name: str) -> SplitInfo:
    split = manifest.splits[whole_name(name)]
    part = part_range(name, split.records)
    if whole_name(name) == name:
        return SplitInfo(name, split.records, split.bytes, split.class_counts, split.shards, part, manifest.fingerprint)
    ends = list(itertools.accumulate(shard.records for shard in split.shards))
    first, last = bisect.bisect_right(ends, part.start), bisect.bisect_left(ends, part.stop)
    found = SplitInfo(
        name, len(part), 0, ClassCounts(url, manifest, name, part), split.shards[first : last + 1], part,
        f"{manifest.fingerprint}[{part.start}:{part.stop}]", part.start - (ends[first] - split.shards[first].records),
    )  # fmt: skip
    return replace(found, bytes=int(found.blocks().bytes.sum()))


def opened(dataset: DatasetInfo | str | os.PathLike[str]) -> DatasetInfo:
    """``dataset`` itself, or ``info(dataset)``, which raises UsageError if it is no address."""
    return dataset if isinstance(dataset, DatasetInfo) else info(dataset)


def info(directory: str | os.PathLike[str]) -> DatasetInfo:
    """The dataset in ``directory``: a local folder, or a folder of a bucket or web server.

    Args:
        directory: A path, ``gs://bucket/folder``, ``s3://bucket/folder``, ``az://container/folder``
            or ``https://host/folder``.

    Raises:
        DatasetError: no dataset is there, its build did not finish, or its manifest is damaged or
            of an unknown version.
        UsageError: an empty string, an address of another kind, no credentials, or no permission
            to read.
        StorageError: the store kept failing.
    """
    if not isinstance(directory, (str, os.PathLike)):
        raise UsageError(
            f"the dataset is {clip(repr(directory))}: expected what shardfeed.info gave, its folder or gs://bucket/folder."
        )
    url = os.fspath(directory)
    if not url:  # from a variable that is not set, perhaps; the current folder would be a guess
        raise UsageError(
            "the dataset is an empty string. Name its folder (. for the current one) or gs://bucket/folder."
        )
    url = storage.normal_url(url) if storage.is_remote(url) else os.path.abspath(os.path.expanduser(url))
    store = storage.open_store(url)
    where = storage.join_url(url, naming.MANIFEST)
    found = store.stat(naming.MANIFEST)
    if found is None:
        raise _absent(url, store)
    if found.size > MAX_BYTES:
        raise DatasetError(
            f"{clip(where)} has {found.size:,} bytes, expected at most {MAX_BYTES:,}: it is not a manifest of shardfeed. "
            "Restore the file from a copy, or build the dataset again."
        )
    return DatasetInfo(url, parse_manifest(store.read(naming.MANIFEST), where))


def _absent(url: str, store: storage.Store) -> DatasetError:
    if not storage.is_unlistable(url) and next(iter(store.list(naming.PARTS + "/")), None) is not None:
        return DatasetError(
            f"no dataset at {clip(url)}: build incomplete: rerun the same `shardfeed build` command. "
            "It carries on from its finished parts."
        )
    if not storage.is_remote(url) and os.path.isfile(url):
        return DatasetError(f"no dataset at {clip(url)}: expected the folder of one, found a file. Name its folder.")
    return DatasetError(
        f"no dataset at {clip(url)}: {naming.MANIFEST} is not there. "
        "Correct the path, or build the dataset with `shardfeed build`."
    )
