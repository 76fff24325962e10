"""Reads records of one split by number, in any process and thread.

What the reader knows of the dataset is a few numbers per shard, and it is all that is pickled.
Files, mappings and clients are opened by each process at its first read.

An error is explained from the dataset as it is then, because the dataset may be another one by now:
is the fingerprint still the one that was opened, has the shard its size, is its block whole? So
damage is told from a wrong index and from a dataset that was built again.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import BytesIO
from itertools import accumulate

from shardfeed import storage
from shardfeed.arrays.blocks import BlockReader, LoadedRecord
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.same_dataset import ShardVersions, same_dataset
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.decoding import RecordProblem
from shardfeed.errors import COPY_OR_REBUILD, DatasetError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import Shard
from shardfeed.format.record_index import ITEM_BYTES, index_files
from shardfeed.format.tfrecord import CRC_BYTES, HEADER_BYTES, OVERHEAD, RecordError, read_record
from shardfeed.random_access.index import IndexFile, Numbers, TextIndexes, Values
from shardfeed.random_access.shard_files import LocalShards, Range, RemoteShards, ShardFiles
from shardfeed.sampling.blocks import Block, blocks_in
from shardfeed.storage.base import NotFoundError
from shardfeed.storage.local import LocalStore

Stored = tuple[bytes, int | None]
"""The frame of a record, which may be damaged, and its class by the index; None as in ``OpenSplit``."""

_forks = 0  # between the process that imported this module and this one; getpid takes five times as long


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class SplitReader:
    """Reads ``split`` of the dataset ``found``.

    Attributes:
        url: Address of the dataset.
        fingerprint: Fingerprint of the dataset that was opened.
        split: Name of the split.
        indexed: Whether the split has index files to map.
        names, sizes, versions: Name, bytes and version of each shard.
        firsts: Number of each shard's first record; then the number of all records.

    Raises:
        DatasetError: a shard is absent or of another size, or an index file is damaged.
    """

    def __init__(self, found: DatasetInfo, split: SplitInfo) -> None:
        versions = check_split(found, split)
        self.url, self.fingerprint, self.split = found.url, found.fingerprint, split.name
        self.indexed = set(index_files(split.name).values()) <= {file.file for file in found.manifest.files}
        # Copies that lie together: a forked child that looks at an object gets a copy of its page, and
        # the manifest's objects are spread over many.
        self.names = " ".join(shard.file for shard in split.shards).split()
        self.sizes = array("q", [shard.bytes for shard in split.shards])
        self.firsts = array("q", accumulate((shard.records for shard in split.shards), initial=0))
        self.versions = tuple(map(versions.__getitem__, self.names))
        self._opened: OpenSplit | None = None
        _ = self.opened  # the caller hears of a damaged index, not its worker processes

    # another process opens the files anew
    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    def __len__(self) -> int:
        return self.firsts[-1]

    @property
    def opened(self) -> OpenSplit:
        """What this process has open. Opens it if need be, and then raises as ``SplitReader``."""
        found = self._opened
        if found is None or found.forks != _forks:
            try:
                found = self._opened = OpenSplit(self)
            except DatasetError:
                same_dataset(self.url, self.fingerprint)
                raise
        return found

    def all_classes(self) -> Values:
        """Class of each record; only of a split with an index. Raises as ``opened``."""
        try:
            return self.opened.all_classes
        except (DatasetError, NotFoundError):
            same_dataset(self.url, self.fingerprint)
            raise

    def read(self, number: int) -> Stored:
        """One record.

        Raises:
            DatasetError: its place cannot be right, or its shard is absent.
            StorageError: the store kept failing.
        """
        opened = self.opened
        shard, start, size = self._place(number, opened.offsets)
        if size < OVERHEAD or start + size > self.sizes[shard]:
            raise self.explained(number)
        try:
            framed = opened.shards.read(shard, start, size)
        except NotFoundError:
            raise self.explained(number) from None
        return framed, None if opened.classes is None else opened.classes[number]

    def read_all(self, numbers: Sequence[int]) -> Iterator[tuple[int, Stored]]:
        """Several records in their order on the disk, each with its place in ``numbers``.

        Raises:
            DatasetError, StorageError: as ``read``.
        """
        opened = self.opened
        offsets, classes, sizes, firsts = opened.offsets, opened.classes, self.sizes, self.firsts
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        ranges: list[Range] = []
        shard = stop = -1
        for place in order:
            number = numbers[place]
            if number >= stop:
                shard = bisect_right(firsts, number) - 1
                stop = firsts[shard + 1]
            start, after = offsets[number], number + 1
            size = (offsets[after] if after < stop else sizes[shard]) - start
            if size < OVERHEAD or start + size > sizes[shard]:
                raise self.explained(number)
            ranges.append((shard, start, size))
        frames = opened.shards.read_all(ranges)
        for place in order:
            number = numbers[place]
            try:
                framed = next(frames)
            except NotFoundError:
                raise self.explained(number) from None
            yield place, (framed, None if classes is None else classes[number])

    def damage(self, number: int, data: bytes, problem: RecordProblem | RecordError) -> DatasetError:
        """The error for a record of this ``data`` that has a ``problem``."""
        shard, start, _ = self._place(number, self.opened.offsets)
        file = Shard(self.names[shard], self.firsts[shard + 1] - self.firsts[shard], self.sizes[shard], "", ())
        whole = Block(file, 0, 0, file.records, file.bytes)
        record = LoadedRecord(memoryview(data), whole, number - self.firsts[shard], start)
        return BlockReader(self.url).damage(record, problem)

    def _place(self, number: int, offsets: Numbers) -> Range:
        """Where a record lies by the index, which may be wrong."""
        firsts = self.firsts
        shard = bisect_right(firsts, number) - 1
        start, after = offsets[number], number + 1
        return shard, start, (offsets[after] if after < firsts[shard + 1] else self.sizes[shard]) - start

    def explained(self, number: int) -> DatasetError:
        """The error for a record of which there is no whole frame where the index says.

        Raises:
            DatasetError: the dataset is another one or gone, or the shard is absent or of another
                size.
        """
        found = same_dataset(self.url, self.fingerprint)
        split = found.splits[self.split]
        shard, start, size = self._place(number, self.opened.offsets)
        file, inside = split.shards[shard], number - self.firsts[shard]
        check_split(found, split, [file])
        block = next(each for each in blocks_in([file]) if inside < each.first + each.records)
        try:
            true = block.offset + BlockReader(self.url).read(block)[inside - block.first].offset
        except DatasetError as error:  # of the first damaged record of the block
            inside_shard = size >= OVERHEAD and start + size <= file.bytes
            frame = self.opened.shards.read(shard, start, size) if inside_shard else b""
            try:
                read_record(BytesIO(frame), start, inside)
            except RecordError as problem:
                return self.damage(number, frame[HEADER_BYTES:-CRC_BYTES], problem)
            return error
        name = naming.split_index_name(self.split) if self.indexed else naming.index_name(file.file)
        return DatasetError(
            f"{clip(storage.join_url(self.url, name))} is damaged: record {number}: expected byte {true} of {file.file}, found "
            f"bytes {start} to {start + size}. {COPY_OR_REBUILD} shardfeed verify {clip(self.url)} --deep lists all damage."
        )


class OpenSplit:
    """What one process has open of a split.

    Attributes:
        forks: As ``_forks`` was when it was opened: a child opens its own.
        shards: The shards.
        offsets: Where each record begins in its shard.
        classes: Class of each record; None where a look at one is a request, or there is no index.
    """

    def __init__(self, reader: SplitReader) -> None:
        self.forks = _forks
        # glibc then keeps up to twice as much freed memory. Else it gives the memory of each batch back
        # to the kernel, and a batch of small images spends a third of its time on page faults.
        bytes(8 << 20)
        store = storage.open_store(reader.url)
        known = dict(zip(reader.names, reader.versions, strict=True))
        versions = ShardVersions(reader.url, reader.fingerprint, known)
        self.shards: ShardFiles
        if isinstance(store, LocalStore):
            self.shards = LocalShards(store, reader.names, versions)
        else:
            self.shards = RemoteShards(store, reader.names, versions)
        self.offsets: Numbers
        self.classes: Numbers | None = None
        if reader.indexed:
            offsets, self._classes = (
                IndexFile(store, reader.split, column, reader.fingerprint, len(reader), len(reader.names))
                for column in ITEM_BYTES
            )
            self.offsets = offsets.numbers()
            if isinstance(store, LocalStore):
                self.classes = self._classes.numbers()
        else:
            self.offsets = TextIndexes(store, reader.names, reader.firsts, reader.sizes)

    def check_classes(self) -> None:
        """Raises DatasetError if the index of ``classes`` is damaged."""
        self._classes.check_mapped()

    @cached_property
    def all_classes(self) -> Values:
        """Class of each record, as an array; only of a split with an index."""
        return self._classes.values()
