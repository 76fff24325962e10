"""A published dataset opened for reading: its store, its manifest, and its files as ordinary binary files.

One decision: everything is read through ``Store.read_range`` in pieces of a few megabytes, locally too, so that a shard on
a bucket and a shard on a disk are the same code and memory is bounded by threads, never by the size of a shard.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, cast

from shardfeed import naming, storage
from shardfeed.errors import DatasetError
from shardfeed.manifest import Manifest, parse_manifest
from shardfeed.storage.base import NotFoundError, Store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 4 << 20  # bytes a request: at 30 ms a request, 130 MB/s a thread from a bucket


def open_published(directory: str) -> tuple[Store, Manifest]:
    """Store and manifest of the dataset in ``directory`` (a local path or ``gs://…``).

    Raises:
        DatasetError: no dataset there, or a manifest that is damaged or of an unknown version.
    """
    store = storage.open_store(directory)
    try:
        data = store.read(naming.MANIFEST)
    except NotFoundError:
        raise DatasetError(_absent(directory, store)) from None
    return store, parse_manifest(data, storage.join_url(store.url, naming.MANIFEST))


def open_file(store: Store, name: str, size: int) -> BinaryIO:
    """``name``, of ``size`` bytes, as a seekable binary file that asks the store for ``CHUNK`` bytes at a time."""
    return cast(BinaryIO, io.BufferedReader(_StoreFile(store, name, size), buffer_size=max(1, min(CHUNK, size))))


def _absent(directory: str, store: Store) -> str:
    what = f"no dataset here: {storage.join_url(directory, naming.MANIFEST)} does not exist"
    if next(store.list(naming.PARTS + "/"), None) is not None:
        return f"{what}; a build is incomplete. Rerun the command that started it: it carries on and publishes."
    return f"{what}. Check the path, or build the dataset: shardfeed build --input … --output {directory}"


class _StoreFile(io.RawIOBase):
    """Unbuffered: every read is a request."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store, self._name, self._size, self._at = store, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        want = min(len(view), self._size - self._at)
        if want <= 0:
            return 0
        data = self._store.read_range(self._name, self._at, want)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
