"""Where each record begins, and its class, by the record's number: three ways to a column.

- On a disk the file is mapped. Opening reads its header, and processes share its pages.
- In a bucket pages of the file are fetched when they are needed. A process keeps the pages that
  were used last, at most ``_CACHE_BYTES``.
- A dataset without these files (``schema_version`` 1) has a text index per shard, which is read
  when a record of the shard is first asked for. It holds no classes.

A column is indexed by the record's number and gives an int; nothing else is asked of it on the way
to a record.
"""

from __future__ import annotations

import mmap
import os
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shardfeed import storage
from shardfeed.dataset.same_dataset import same_dataset
from shardfeed.errors import COPY_OR_REBUILD, DatasetError, clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.record_index import (
    DTYPE,
    INDEX_HEADER_BYTES,
    ITEM_BYTES,
    IndexColumn,
    IndexHeader,
    index_files,
    parse_header,
)
from shardfeed.storage.base import NotFoundError, Store, UnreadableError
from shardfeed.storage.local import LocalStore

_PAGE_BYTES = 1 << 20
# Pages of an index that is larger than the cache: a random record then costs 16 kB, not 1 MB.
_SMALL_PAGE_BYTES = 1 << 14
_CACHE_BYTES = 32 << 20  # per process: the offsets of 4 million records

Values = NDArray[Any]
"""A column as it is stored: uint64 offsets or int32 classes."""


class Numbers(Protocol):
    """A column: one number per record of the split."""

    def __getitem__(self, number: int, /) -> int:
        """The value of one record."""


class IndexFile:
    """One of the two index files of a split.

    ``records``, ``shards``: what the manifest says of the split.

    Raises:
        DatasetError: the file is absent, torn, or another dataset's.
    """

    def __init__(
        self, store: Store, split: str, column: IndexColumn, fingerprint: str, records: int, shards: int
    ) -> None:
        name = index_files(split)[column]
        self._store, self._name, self._column, self._records = store, name, column, records
        self._size, self._expected = INDEX_HEADER_BYTES + records * ITEM_BYTES[column], (fingerprint, records, shards)
        found = store.stat(name)
        self._check_size(None if found is None else found.size)
        self._crc = self._checked_header(store.read_range(name, 0, INDEX_HEADER_BYTES)).crc32c

    def numbers(self) -> Numbers:
        """The column, to be asked for single records. It is mapped, or fetched by the page."""
        if isinstance(self._store, LocalStore):
            return self._mapped().data  # an int from it takes 40 ns, from the array 200
        return _Pages(self._store, self._name, self._column, self._records, self._expected[0])

    def values(self) -> Values:
        """The whole column, read-only. It is mapped, or read once and compared with its crc."""
        if isinstance(self._store, LocalStore):
            return self._mapped()
        data = self._store.read(self._name)[INDEX_HEADER_BYTES:]
        self._check(data)
        return np.frombuffer(data, DTYPE[self._column])

    def check_mapped(self) -> None:
        """Compares a local file with its crc. Raises DatasetError: it is damaged."""
        self._check(self._mapped().data.cast("B"))

    def _check_size(self, size: int | None) -> None:
        if size != self._size:
            raise self._damaged(f"{self._size:,} bytes", "no such file" if size is None else f"{size:,} bytes")

    def _checked_header(self, data: bytes) -> IndexHeader:
        try:
            header = parse_header(data, self._column)
        except ValueError as error:
            raise self._damaged(f"the header of an index of {self._column}", str(error)) from None
        expected, said = self._expected, (header.fingerprint, header.records, header.shards)
        if said != expected:
            texts = ["fingerprint {}, {:,} records in {} shards".format(*each) for each in (expected, said)]
            raise self._damaged(*texts)
        return header

    def _check(self, data: bytes | memoryview) -> None:
        if (found := crc32c(data)) != self._crc:
            raise self._damaged(f"crc32c {to_hex(self._crc)}", to_hex(found))

    def _mapped(self) -> Values:
        assert isinstance(self._store, LocalStore)
        with self._store.reading(self._name), open(self._store.path(self._name), "rb") as file:
            self._check_size(os.fstat(file.fileno()).st_size)  # it may be another file by now
            whole = mmap.mmap(file.fileno(), self._size, access=mmap.ACCESS_READ)
        self._checked_header(whole[:INDEX_HEADER_BYTES])
        return np.frombuffer(whole, DTYPE[self._column], offset=INDEX_HEADER_BYTES)

    def _damaged(self, expected: str, found: str) -> DatasetError:
        where = clip(storage.join_url(self._store.url, self._name))
        return DatasetError(f"{where} is damaged: expected {expected}, found {clip(found)}. {COPY_OR_REBUILD}")


class _Pages:
    """A column in a bucket, by the page. Threads wait for each other's pages."""

    def __init__(self, store: Store, name: str, column: IndexColumn, records: int, fingerprint: str) -> None:
        self._store, self._name, self._dtype, self._fingerprint = store, name, DTYPE[column], fingerprint
        size = records * ITEM_BYTES[column]
        page_bytes = _PAGE_BYTES if size <= _CACHE_BYTES else _SMALL_PAGE_BYTES
        self._page_bytes, self._per_page = page_bytes, page_bytes // ITEM_BYTES[column]
        self._end, self._most = INDEX_HEADER_BYTES + size, _CACHE_BYTES // page_bytes
        self._pages: OrderedDict[int, Numbers] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, number: int, /) -> int:
        page, place = divmod(number, self._per_page)
        with self._lock:
            found = self._pages.get(page)
            if found is None:
                found = self._pages[page] = self._fetched(page)
                if len(self._pages) > self._most:
                    self._pages.popitem(last=False)
            else:
                self._pages.move_to_end(page)
        return found[place]

    def _fetched(self, page: int) -> Numbers:
        start = INDEX_HEADER_BYTES + page * self._page_bytes
        size = min(self._page_bytes, self._end - start)
        try:
            data = self._store.read_range(self._name, start, size)
            found = f"{len(data):,}"
        except NotFoundError:
            data, found = b"", "no such file"
        if len(data) != size:
            same_dataset(self._store.url, self._fingerprint)
            where = clip(storage.join_url(self._store.url, self._name))
            raise DatasetError(
                f"{where} is damaged: expected {size:,} bytes from byte {start:,} on, found {found}. {COPY_OR_REBUILD}"
            )
        return np.frombuffer(data, self._dtype).data


class TextIndexes:
    """Offsets from the text indexes ``.idx`` of a split's ``shards``, read by the shard.

    ``firsts``: number of each shard's first record, and of all records; ``sizes``: their bytes.
    """

    def __init__(self, store: Store, shards: Sequence[str], firsts: Sequence[int], sizes: Sequence[int]) -> None:
        self._store, self._shards, self._firsts, self._sizes = store, shards, firsts, sizes
        self._read: dict[int, array[int]] = {}

    def __getitem__(self, number: int, /) -> int:
        shard = bisect_right(self._firsts, number) - 1
        offsets = self._read.get(shard)
        if offsets is None:
            offsets = self._read[shard] = self._offsets(shard)
        return offsets[number - self._firsts[shard]]

    def _offsets(self, shard: int) -> array[int]:
        """All offsets of a shard; its lines must cover the shard without a gap."""
        name, records = naming.index_name(self._shards[shard]), self._firsts[shard + 1] - self._firsts[shard]
        where = clip(storage.join_url(self._store.url, name))
        try:
            numbers = list(map(int, self._store.read(name).split()))
        except NotFoundError:
            raise DatasetError(
                f"{where} is damaged: expected {records:,} lines, found no such file. {COPY_OR_REBUILD}"
            ) from None
        except UnreadableError:  # which is a ValueError
            raise
        except ValueError as error:
            raise DatasetError(
                f"{where} is damaged: expected numbers, found {clip(error)}. {COPY_OR_REBUILD}"
            ) from None
        offsets, sizes = numbers[::2], numbers[1::2]
        ends = [offset + size for offset, size in zip(offsets, sizes, strict=False)]
        if len(offsets) != records or [0, *ends] != [*offsets, self._sizes[shard]]:
            raise DatasetError(
                f'{where} is damaged: expected {records:,} lines "offset size" that follow each other up to byte '
                f"{self._sizes[shard]:,}, found {len(offsets):,} lines that do not. {COPY_OR_REBUILD}"
            )
        return array("Q", offsets)
