"""A file of a store as an ordinary binary file, which is read from front to back, or by seeking.

It is read by ``Store.read_range`` in pieces of a few megabytes, on a disk too. So the code is the
same for a bucket and a disk, and memory depends on the number of threads, never on the size of a
shard.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from shardfeed.storage.base import Store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_AHEAD_BYTES = 4 << 20  # per request: at 30 ms per request, 130 MB/s per thread from a bucket
_WHOLE = 16 << 20  # bytes; a record table of some 200,000 rows


def open_file(store: Store, name: str, size: int, offset: int = 0) -> BinaryIO:
    """``name``, of ``size`` bytes, from ``offset`` on; asks for ``READ_AHEAD_BYTES`` at a time."""
    raw = RangeFile(partial(store.read_range, name), size, offset)
    return cast(BinaryIO, io.BufferedReader(raw, buffer_size=max(1, min(READ_AHEAD_BYTES, size))))


def open_whole(store: Store, name: str) -> BinaryIO:
    """``name``, of which one request reads all if it is below 16 MB, as record tables mostly are.

    Raises:
        NotFoundError: it is not there.
    """
    data = store.read_range(name, 0, _WHOLE)
    if len(data) < _WHOLE:
        return io.BytesIO(data)
    stat = store.stat(name)
    return open_file(store, name, stat.size if stat else 0)


class RangeFile(io.RawIOBase):
    """A file of ``size`` bytes, unbuffered: every read is a request, ``read(offset, size)``."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, offset: int = 0) -> None:
        self._read, self._size, self._at = read, size, offset

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        want = min(len(view), self._size - self._at, READ_AHEAD_BYTES)
        if want <= 0:
            return 0
        data = self._read(self._at, want)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
