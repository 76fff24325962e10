"""A local output folder: can it be made, is it free, and is it left behind empty?

Only what a listing of files cannot show is looked at here. Foreign files are the claim's
business. A bucket has no folders, so it passes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from shardfeed import storage
from shardfeed.errors import ConflictError, UsageError, clip
from shardfeed.format import naming


def check_folder(output: str) -> None:
    """Checks a local output; a bucket passes.

    Raises:
        UsageError: no folder can be made there.
        ConflictError: a folder has the name of a file that the build writes.
    """
    if storage.is_remote(output):
        return
    _refuse_unmakeable(output)
    for parent in (output, os.path.join(output, naming.PARTS)):
        for name in _folders_in(parent):
            if naming.is_published_name(name) or os.path.join(parent, name) == os.path.join(output, naming.CLAIM):
                raise ConflictError(
                    f"--output {clip(output)} holds a folder {clip(os.path.join(parent, name))}, where the build writes a file. "
                    "Rename or remove the folder, or give another --output."
                )


def _refuse_unmakeable(output: str) -> None:
    missing = _missing(output)
    if not missing:
        return
    try:
        os.mkdir(missing[-1])
    except FileNotFoundError:  # file systems that are no disk, such as /proc
        raise UsageError(
            f"--output {clip(output)}: the system makes no folders in {clip(os.path.dirname(missing[-1]))}. Give a folder on a "
            "disk (out/) or gs://bucket/folder."
        ) from None
    except OSError:  # permissions, a full disk: the claim says so, with its remedy
        return
    with contextlib.suppress(OSError):  # another build has begun in it meanwhile
        os.rmdir(missing[-1])


def _missing(path: str) -> list[str]:
    """``path`` and the folders above it that are not there, the deepest first."""
    found = []
    while not os.path.lexists(path):
        found.append(path)
        path = os.path.dirname(path)
    return found


def _folders_in(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:  # absent, a file, or unreadable: the build says so when it writes
        return []


@contextlib.contextmanager
def no_empty_folders(output: str) -> Iterator[None]:
    """Removes the folders of the output's path that are new and empty, however the block ends."""
    missing = [] if storage.is_remote(output) else _missing(output)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one that is not empty, or never made, keeps those above
            for folder in missing:
                os.rmdir(folder)
