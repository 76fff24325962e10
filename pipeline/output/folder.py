"""A local output folder is not left behind empty. A bucket has no folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from shardfeed import storage


@contextlib.contextmanager
def no_empty_folders(output: str) -> Iterator[None]:
    """However the block ends: removes the folders of the output's path that are new and empty."""
    missing: list[str] = []
    path = output
    while not storage.is_remote(output) and not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one that is not empty, or never made, keeps those above
            for folder in missing:
                os.rmdir(folder)
