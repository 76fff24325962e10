"""Blocks of a split, read into memory and taken apart into records, without TensorFlow.

A block is one request and is read whole, even if a host needs only its end. A block is a megabyte,
its place is in the manifest, and its checksums show at once whether every record in it is the one
that was written. So damage is named with the file, the record and the byte by the first reader
that meets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardfeed import storage
from shardfeed.arrays.framing import split
from shardfeed.dataset.same_dataset import ShardVersions
from shardfeed.decoding import RecordProblem
from shardfeed.errors import COPY_OR_REBUILD, DatasetError, clip
from shardfeed.format.example import decode_example
from shardfeed.format.manifest import Shard
from shardfeed.format.tfrecord import HEADER_BYTES, RecordError
from shardfeed.sampling.blocks import Block
from shardfeed.storage.base import NotFoundError


class LoadedRecord(NamedTuple):
    """A stored record in the memory of its block: the ``number``-th, ``offset`` bytes in."""

    data: memoryview
    block: Block
    number: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class LoadedBlock:
    """Records of ``block`` from its ``first``-th on: ``data[starts[i]:stops[i]]``."""

    block: Block
    data: bytes
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    first: int = 0

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> LoadedRecord:
        start, stop = int(self.starts[index]), int(self.stops[index])
        return LoadedRecord(memoryview(self.data)[start:stop], self.block, self.first + index, start - HEADER_BYTES)

    def __iter__(self) -> Iterator[LoadedRecord]:
        return map(self.__getitem__, range(len(self)))

    def part(self, skip: int, take: int) -> LoadedBlock:
        """``take`` of the records, after the first ``skip``."""
        run = slice(skip, skip + take)
        return LoadedBlock(self.block, self.data, self.starts[run], self.stops[run], self.first + skip)


class BlockReader:
    """Reads blocks of the dataset at ``url``; safe to share between threads.

    ``remedy``: what its errors advise. ``versions``: those of the dataset that was opened; None:
    any.
    """

    def __init__(self, url: str, remedy: str | None = None, versions: ShardVersions | None = None) -> None:
        self._url, self._versions = url, versions
        self._remedy = remedy or f"{COPY_OR_REBUILD} shardfeed verify {clip(url)} --deep lists all damage."
        self._store = storage.open_store(url)

    def read(self, block: Block) -> LoadedBlock:
        """The block's records, every checksum compared.

        Raises:
            DatasetError: names file, record and byte of the damage; the dataset is another one.
            StorageError: the store kept failing.
        """
        try:
            data, stat = self._store.read_range_with_stat(block.shard.file, block.offset, block.bytes)
        except NotFoundError:
            raise self._wrong(block.shard, f"expected {block.shard.bytes:,} bytes, found no such file") from None
        if self._versions is not None:
            self._versions.check(block.shard.file, stat)
        try:
            loaded = LoadedBlock(block, data, *split(data))
        except RecordError as error:
            record = LoadedRecord(memoryview(_body(data, error.offset)), block, error.index, error.offset)
            raise self.damage(record, error) from None
        if len(loaded) != block.records:  # cut between two records
            raise self._wrong(
                block.shard,
                f"from byte {block.offset} on: expected {block.records} records in {block.bytes:,} bytes, "
                f"found {len(loaded)} in {len(data):,}",
            )
        return loaded

    def damage(self, record: LoadedRecord, problem: RecordProblem | RecordError) -> DatasetError:
        """The error for a record that has this ``problem``."""
        block = record.block
        return self._wrong(
            block.shard,
            f"record {block.first + record.number} at byte {block.offset + record.offset}, key {key_of(record)}: "
            f"{problem.what}: expected {clip(problem.expected)}, found {clip(problem.found)}",
        )

    def _wrong(self, shard: Shard, what: str) -> DatasetError:
        return DatasetError(f"{clip(storage.join_url(self._url, shard.file))} is damaged: {what}. {self._remedy}")


def _body(data: bytes, offset: int) -> bytes:
    """The bytes where the damaged record's data should be; its key may still be readable."""
    size = int.from_bytes(data[offset : offset + 8], "little")
    return data[offset + HEADER_BYTES : offset + HEADER_BYTES + size]


def key_of(record: LoadedRecord) -> str:
    """The record's key for an error."""
    try:
        return clip(decode_example(bytes(record.data))["key"][0])
    except (ValueError, KeyError, IndexError):
        return "unreadable"
