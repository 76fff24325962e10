"""A file of any input root as a file object, read by ranges in the version that was found."""

from __future__ import annotations

import io

from shardfeed.errors import clip
from shardfeed.storage import Stat, UnreadableError, join_url
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
        """The file as an object of Python's, which raises UnreadableError if it changes meanwhile."""
        return io.BufferedReader(_Raw(self), PIECE)


class _Raw(io.RawIOBase):
    def __init__(self, file: File) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.stat.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(self._at, min(len(buffer), self._file.stat.size - self._at))
        except ChangedError as error:
            raise UnreadableError(
                f"input {clip(self._file.url)} changed while it was read. Run the same command again when it is complete."
            ) from error
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
