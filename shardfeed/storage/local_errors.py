"""What the operating system's errors mean to a user: turns ``errno`` into what to do next.

A full disk is a ``StorageError`` (free some space, run the same command again). Missing permissions
and wrong paths are a ``UsageError`` (another argument is needed). Everything else is a
``StorageError`` with the system's own words.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Literal

from shardfeed.errors import UsageError, clip
from shardfeed.storage.base import StorageError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NOT_A_FOLDER = frozenset({errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP})

WRITE_ERRNOS = _FULL | {errno.EFBIG}  # only a write can fail with these

Action = Literal["read", "write", "delete"]


@contextlib.contextmanager
def explained(path: str, action: Action, folder: str, size: int | None = None) -> Iterator[None]:
    """Turns an ``OSError`` in the block into an error of ours that names ``path``.

    ``folder``: the dataset's folder, which holds ``path``. ``size``: bytes that were to be written.
    """
    try:
        yield
    except OSError as error:
        raise _translate(error, path, action, folder, size) from error


def _translate(error: OSError, path: str, action: Action, folder: str, size: int | None) -> StorageError | UsageError:
    shown, reason = clip(path), os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        needed = "" if size is None else f"{size:,} bytes of "
        return StorageError(
            f"disk full: {needed}{shown} cannot be written ({reason}). "
            "Free some space or choose an --output on another disk, then run the same command again."
        )
    if error.errno == errno.EFBIG:
        return UsageError(
            f"{shown} is too large for a file on this disk ({reason}). Choose an --output on another disk; or a smaller "
            "--shard_bytes or more --num_shards, with --discard_incomplete."
        )
    if error.errno in _DENIED and action == "read":  # by a build, a trainer or a look at a dataset
        return UsageError(
            f"no permission to read {shown} ({reason}). Make the dataset readable for this user "
            f"(chmod -R u+rX {clip(folder)}; as its owner: a+rX lets everybody read), or name another folder."
        )
    if error.errno in _DENIED:
        verb = {"write": "write to", "delete": "delete from"}[action]
        return UsageError(
            f"cannot {verb} the output: {shown} ({reason}). Allowed is a folder that this user owns or may write to: "
            "change its permissions (chmod, chown) or choose another --output."
        )
    if error.errno in _NOT_A_FOLDER:
        return UsageError(
            f"cannot use {shown} ({reason}). Something that is not a folder stands in the way: "
            "remove it or choose another --output."
        )
    remedy = "Check the disk or its mount, then run" if action == "read" else "Run"
    kept = "" if action == "read" else "; finished parts are kept"
    return StorageError(f"cannot {action} {shown}: {reason}. {remedy} the same command again{kept}.")
