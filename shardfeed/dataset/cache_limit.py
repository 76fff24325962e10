"""Keeps a folder of copies (``cache=PATH``) below the size in ``SHARDFEED_CACHE_LIMIT``.

Without the variable nothing is ever deleted. With it, copies of other datasets make room, those
whose dataset was used the longest time ago first. A process holds a shared lock on the folder of
each dataset whose copies it reads, and the lock ends with the process. So copies in use stay, on
this machine; where folders cannot be locked, all stay.

It is a variable of the environment, because it belongs to the machine's disk and not to a program.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re

from shardfeed.arguments import byte_count
from shardfeed.errors import clip
from shardfeed.storage.base import StorageError

VARIABLE = "SHARDFEED_CACHE_LIMIT"
# A user's own files are never touched, nor is a disk's lost+found, which nobody may read.
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")
_COPY = re.compile(r"[0-9a-f]{8}-.+\.tfrecord$")
_LOG = logging.getLogger("shardfeed")
_locks: dict[str, int] = {}  # descriptors of the folders that this process reads


def mark_used(top: str) -> None:
    """Says that the copies in ``top`` are used, now and while this process lives."""
    with contextlib.suppress(OSError):  # no such folder yet, no locks, or not ours to change
        if top not in _locks:
            _locks[top] = os.open(top, os.O_RDONLY)
            fcntl.flock(_locks[top], fcntl.LOCK_SH)
        os.utime(top)


def make_room(folder: str, top: str, needed: int, free: int) -> None:
    """Deletes copies of other datasets than that in ``top`` until ``needed`` bytes can be added.

    ``free``: bytes that are free on the disk. Processes that begin to copy at the same moment do
    not know of each other, and may go above the limit.

    Raises:
        UsageError: the limit is no number of bytes.
        StorageError: what is in use leaves too little room.
    """
    if not (given := os.environ.get(VARIABLE)):
        return
    limit = byte_count(VARIABLE, given)
    with os.scandir(os.path.dirname(top)) as entries:
        ours = (entry for entry in entries if _FINGERPRINT.fullmatch(entry.name) and entry.is_dir())
        folders = sorted((entry.stat().st_mtime_ns, entry.path) for entry in ours)
    copies = {path: _copies(path) for _, path in folders}
    over = max(sum(sum(found.values()) for found in copies.values()) + needed - limit, needed - free)
    for _, other in folders:
        if over > 0 and other != top and copies[other]:
            over -= _delete(other, copies[other], over)
    if over > 0:
        raise StorageError(
            f"cache={clip(repr(folder))}: {needed:,} bytes are to be copied, {over:,} more than {VARIABLE}={clip(given)} and the "
            "copies in use leave room for. Set a higher limit, end the programs that read the others, or choose another folder."
        )


def _copies(top: str) -> dict[str, int]:
    """Bytes by path of the copies in ``top``."""
    found = {}
    with os.scandir(top) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another process makes room, too
                if _COPY.match(entry.name):
                    found[entry.path] = entry.stat().st_size
    return found


def _delete(top: str, copies: dict[str, int], bytes_wanted: int) -> int:
    """Deletes copies until enough is free, or none is left; gives the bytes that were freed."""
    freed = 0
    # An OSError: a process reads them, another one is deleting, or there are no locks here.
    with contextlib.suppress(OSError):
        lock = os.open(top, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path, size in sorted(copies.items()):
                if freed < bytes_wanted:
                    os.unlink(path)
                    freed += size
        finally:
            os.close(lock)
        _LOG.info("Deleted %s bytes of copies in %s to stay below %s", f"{freed:,}", clip(top), VARIABLE)
    return freed
