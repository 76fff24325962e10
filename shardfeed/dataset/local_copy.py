"""``cache=PATH``: whole shards copied to a local disk before the first step, and read from there.

A copy gets its name only when it is complete, on the disk and of the manifest's crc32c; the name
contains that crc. So the name is proof, several processes may fill one folder at once (at worst
both copy), and datasets or versions of one never mix. Of existing copies only the size is
compared; later the reader checks every record, and ``explain_errors`` knows which copies this
process reads.

A killed process leaves the file that it was writing. A writer holds a lock (``flock``) on its
file, and the lock ends with the process, however that ends. So the next process knows which files
nobody writes and deletes them, without a guess by age or process id.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from shardfeed import storage
from shardfeed.dataset.cache_limit import make_room, mark_used
from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import COPY_OR_REBUILD, DatasetError, UsageError, clip
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import Shard
from shardfeed.storage.base import StorageError

_REQUEST_BYTES = 16_000_000  # a request to gs:// waits 50 ms; each thread holds one in memory
_THREADS = 8
_TEMPORARY = re.compile(r"\.tfrecord\.tmp-\d+-[0-9a-f]{16}$")  # never the end of a copy's own name
_LOG = logging.getLogger("shardfeed")
_folders_read: dict[str, set[str]] = {}  # by fingerprint: folders of copies that this process reads


def mirror(info: DatasetInfo, shards: Sequence[Shard], folder: str) -> list[str]:
    """Paths of copies of ``shards`` below ``folder``; missing copies are made.

    Raises:
        UsageError: ``folder`` lies in the dataset.
        DatasetError: a shard's bytes are not the manifest's.
        StorageError: ``folder`` cannot be written, has too little space (or less than
            ``SHARDFEED_CACHE_LIMIT`` allows), or the store kept failing.
    """
    top = os.path.abspath(os.path.expanduser(folder))
    if not storage.is_remote(info.url) and Path(os.path.realpath(top)).is_relative_to(os.path.realpath(info.url)):
        raise UsageError(
            f"cache={clip(repr(folder))} lies in the dataset at {clip(info.url)}: choose a folder outside of it."
        )
    top = os.path.join(top, info.fingerprint)
    mark_used(top)
    _sweep(top)
    paths = [os.path.join(top, _name(shard)) for shard in shards]
    absent = [(shard, path) for shard, path in zip(shards, paths, strict=True) if _size(path) != shard.bytes]
    _folders_read.setdefault(info.fingerprint, set()).add(top)
    if absent:
        with _writing(folder, top):
            os.makedirs(top, exist_ok=True)
            mark_used(top)
            needed = sum(shard.bytes for shard, _ in absent)
            make_room(folder, top, needed, shutil.disk_usage(top).free)
            free = shutil.disk_usage(top).free
        if needed > free:
            raise StorageError(
                f"cache={clip(repr(folder))}: {needed:,} bytes are to be copied to {clip(top)}, where {free:,} bytes are free. "
                "Free some space there, or choose another folder."
            )
        _LOG.info("Copying %d shards, %s bytes, to %s", len(absent), f"{needed:,}", clip(top))
        with ThreadPoolExecutor(_THREADS) as pool:
            for done, _ in enumerate(pool.map(lambda one: _copy(info, folder, *one), absent), 1):
                if done * 10 // len(absent) > (done - 1) * 10 // len(absent):  # each tenth
                    _LOG.info("Copied %d of %d shards to %s", done, len(absent), clip(top))
    return paths


def copies_read(info: DatasetInfo, shards: Sequence[Shard]) -> dict[str, list[Shard]]:
    """Folders of copies that this process reads, each with its ``shards`` by the copies' names."""
    copied = [replace(shard, file=_name(shard)) for shard in shards]
    return {
        folder: [shard for shard in copied if os.path.exists(os.path.join(folder, shard.file))]
        for folder in sorted(_folders_read.get(info.fingerprint, ()))
    }


def copy_remedy(info: DatasetInfo) -> str:
    """What the error for a damaged copy advises."""
    return f"It is a copy of {clip(info.url)}, made by cache=: delete it, and the next reader copies it again."


def _name(shard: Shard) -> str:
    return f"{shard.crc32c}-{shard.file}"


def _copy(info: DatasetInfo, folder: str, shard: Shard, path: str) -> None:
    store = storage.open_store(info.url)
    crc = size = 0
    with _writing(folder, path), _temporary(path) as file:
        while size < shard.bytes and (
            data := store.read_range(shard.file, size, min(_REQUEST_BYTES, shard.bytes - size))
        ):
            crc, size = crc32c(data, crc), size + len(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
        if (to_hex(crc), size) != (shard.crc32c, shard.bytes):
            raise DatasetError(
                f"{clip(storage.join_url(info.url, shard.file))} is damaged: expected {shard.bytes:,} bytes with crc32c "
                f"{shard.crc32c}, found {size:,} bytes with crc32c {to_hex(crc)}. {COPY_OR_REBUILD}"
            )
        os.replace(file.name, path)


@contextlib.contextmanager
def _temporary(path: str) -> Iterator[BinaryIO]:
    """A new file beside ``path``, locked while it is open.

    It is deleted at the end, unless it was renamed.
    """
    while True:
        name = f"{path}.tmp-{os.getpid()}-{os.urandom(8).hex()}"
        with open(name, "xb") as file:
            try:
                with contextlib.suppress(OSError):  # a file system without locks: nothing is swept there
                    fcntl.flock(file, fcntl.LOCK_EX)
                if not os.fstat(file.fileno()).st_nlink:  # swept in the moment before it was locked
                    continue
                yield file
                return
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)


def _sweep(top: str) -> None:
    """Deletes the files that killed processes have left in ``top``."""
    try:
        left = [name for name in os.listdir(top) if _TEMPORARY.search(name)]
    except OSError:  # no such folder yet, or one that writing will say something about
        return
    for name in left:
        # An OSError: the file is gone, another process writes it, it is another user's, or there
        # are no locks here. Then it is not ours to delete.
        with contextlib.suppress(OSError), open(os.path.join(top, name), "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(file.name)


@contextlib.contextmanager
def _writing(folder: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "Free some space there, or choose another folder." if full else "Choose a folder that can be written."
        raise StorageError(
            f"cache={clip(repr(folder))}: {clip(path)} cannot be written ({error.strerror}). {remedy}"
        ) from error


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:  # not there, or not to be read, which writing will say
        return None
