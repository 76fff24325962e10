"""Ranges of shards: of files that stay open, or of objects in a bucket, many at a time.

On a disk a range is one ``pread``, which has no place in the file that threads or a forked child
could disturb. A file is closed when nobody reads it any more, so a thread never reads from a number
that belongs to another file by now.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from typing import Protocol

from shardfeed.dataset.same_dataset import ShardVersions
from shardfeed.storage.base import Store
from shardfeed.storage.local import LocalStore, open_at_once, stat_of

_MOST_OPEN = 256  # files per process and split; a quarter of the usual limit
_REMOTE_READERS = 32  # requests in flight; one waits about 50 ms
# One request reads neighbours that lie no further apart: these bytes take as long as a request.
_GAP = 16_000
_JOINED = 4_000_000  # most bytes of such a request


Range = tuple[int, int, int]
"""Number of a shard, first byte, number of bytes."""


class ShardFiles(Protocol):
    """The shards of a split."""

    def read(self, shard: int, start: int, size: int) -> bytes:
        """A range; fewer bytes if the shard ends before. Raises NotFoundError."""

    def read_all(self, ranges: Sequence[Range]) -> Iterator[bytes]:
        """Several ranges in the order of shards and bytes. Raises NotFoundError."""


class LocalShards:
    """Shards of a folder."""

    def __init__(self, store: LocalStore, names: Sequence[str], versions: ShardVersions) -> None:
        self._store, self._names, self._versions = store, names, versions
        self._open: dict[int, _OpenFile] = {}
        self._lock = threading.Lock()

    def read(self, shard: int, start: int, size: int) -> bytes:
        file = self._open.get(shard) or self._opened(shard)
        try:
            return os.pread(file.number, size, start)
        except OSError:
            with self._store.reading(self._names[shard]):
                raise

    def read_all(self, ranges: Sequence[Range]) -> Iterator[bytes]:
        return starmap(self.read, ranges)

    def _opened(self, shard: int) -> _OpenFile:
        with self._lock, self._store.reading(self._names[shard]):
            if shard not in self._open:
                if len(self._open) >= _MOST_OPEN:
                    del self._open[next(iter(self._open))]
                file = _OpenFile(open_at_once(self._store.path(self._names[shard]), os.O_RDONLY))
                self._versions.check(self._names[shard], stat_of(os.fstat(file.number)))
                self._open[shard] = file
            return self._open[shard]


class RemoteShards:
    """Shards of a bucket."""

    def __init__(self, store: Store, names: Sequence[str], versions: ShardVersions) -> None:
        self._store, self._names, self._versions = store, names, versions
        self._pool = ThreadPoolExecutor(_REMOTE_READERS, "shardfeed-records")

    def read(self, shard: int, start: int, size: int) -> bytes:
        data, stat = self._store.read_range_with_stat(self._names[shard], start, size)
        self._versions.check(self._names[shard], stat)
        return data

    def read_all(self, ranges: Sequence[Range]) -> Iterator[bytes]:
        requests = _joined(ranges)
        read = map if len(requests) < 2 else self._pool.map
        answers = read(lambda request: self.read(*request[0]), requests)
        for ((_, first, _), members), data in zip(requests, answers, strict=True):
            for _, start, size in members:
                yield data[start - first : start - first + size]


def _joined(ranges: Sequence[Range]) -> list[tuple[Range, list[Range]]]:
    """What one request reads each, and the ranges in it."""
    requests: list[tuple[Range, list[Range]]] = []
    before, first, end = -1, 0, 0
    for shard, start, size in ranges:
        if shard != before or not first <= start <= end + _GAP or start + size - first > _JOINED:
            before, first, end = shard, start, start
            requests.append(((shard, start, size), []))
        end = max(end, start + size)
        _, members = requests[-1]
        members.append((shard, start, size))
        requests[-1] = (shard, first, end - first), members
    return requests


class _OpenFile:
    """Closed with the last reference to it."""

    __slots__ = ("number",)
    _close = staticmethod(os.close)  # at the end of the process this module has lost its names

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        self._close(self.number)
