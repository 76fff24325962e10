"""A file of any input root as a file object, read by ranges in the version that was found."""

from __future__ import annotations

import io

from shardfeed.errors import clip
from shardfeed.storage import Stat, UnreadableError, join_url
from shardfeed.storage.stored_file import RangeFile
from shardfeed.transforms.sources.base import ChangedError, FileSource

PIECE = 1 << 20  # bytes per request


class File:
    """One file of ``folder`` (an archive, a list), in the version that is there now.

    Raises:
        UnreadableError: it is not there.
    """

    def __init__(self, folder: FileSource, name: str) -> None:
        self.url = join_url(folder.url, name)
        self._folder, self._key = folder, name.encode("utf-8", "surrogateescape")
        found = folder.find(self._key)
        if found is None or found.kind != "file":
            what = "is no plain file" if found else "does not exist"
            raise UnreadableError(f"input {clip(self.url)} {what}. Check the spelling and the folder.")
        self.stat: Stat = found.stat

    def read(self, offset: int, size: int) -> bytes:
        """``size`` bytes from ``offset`` on; fewer only at the end. Raises ChangedError."""
        if offset >= self.stat.size:  # also one that no system call takes
            return b""
        return self._folder.read_range(self._key, self.stat, offset, size)

    def open(self) -> io.BufferedReader:
        """The file as Python's file object; it raises UnreadableError if the file changes."""
        return io.BufferedReader(RangeFile(self._unchanged, self.stat.size), PIECE)

    def _unchanged(self, offset: int, size: int) -> bytes:
        try:
            return self.read(offset, size)
        except ChangedError as error:
            raise UnreadableError(
                f"input {clip(self.url)} changed while it was read. Run the same command again when it is complete."
            ) from error
