"""A dataset's folder on a local or mounted disk."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence

from shardfeed.storage.base import NotFoundError, Stat, Store
from shardfeed.storage.local_errors import explained

_LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # of a link


class LocalStore(Store):
    """A folder."""

    def __init__(self, root: str) -> None:
        self.url = root
        self.root = os.path.expanduser(root)

    def read(self, name: str) -> bytes:
        with self.reading(name), open(self.path(name), "rb", buffering=0, opener=open_at_once) as file:
            return file.readall() or b""

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        return self.read_range_with_stat(name, offset, size)[0]

    def read_range_with_stat(self, name: str, offset: int, size: int) -> tuple[bytes, Stat]:
        with self.reading(name), open(self.path(name), "rb", opener=open_at_once) as file:
            file.seek(offset)
            return file.read(size), stat_of(os.fstat(file.fileno()))

    def stat(self, name: str) -> Stat | None:
        with explained(self.path(name), "read", self.root):
            try:
                found = os.stat(self.path(name))
            except (FileNotFoundError, NotADirectoryError):
                return None
        return stat_of(found)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        folders = [prefix.rpartition("/")[0]]
        while folders:
            folder = folders.pop()
            for entry in self._scan(folder):
                name = f"{folder}/{entry.name}" if folder else entry.name
                if not name.startswith(prefix):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif (found := self._stat_of(entry, name)) is not None:
                    yield name, found

    def path(self, name: str) -> str:
        """Where ``name`` lies on the disk."""
        return os.path.join(self.root, name) if name else self.root

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Turns errors of the block, which reads ``name``, into errors of ours."""
        with explained(self.path(name), "read", self.root):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise NotFoundError(
                    f"{self.path(name)} is not there. If nobody removed it, run the same command again."
                ) from None

    def _stat_of(self, entry: os.DirEntry[str], name: str) -> Stat | None:
        """Of a listed file; None if it was removed since it was listed."""
        with explained(self.path(name), "read", self.root):
            try:
                try:
                    found = entry.stat()  # a dataset may be links to files elsewhere, as caches keep them
                except OSError as error:
                    if error.errno not in _LEADS_NOWHERE:
                        raise
                    found = entry.stat(follow_symlinks=False)  # a dangling link, or gone by now
            except FileNotFoundError:
                return None
        return stat_of(found)

    def _scan(self, folder: str) -> Sequence[os.DirEntry[str]]:
        with explained(self.path(folder), "read", self.root):
            try:
                with os.scandir(self.path(folder)) as entries:
                    return sorted(entries, key=lambda entry: entry.name)
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                if folder:
                    return []
                raise  # the root is a file, or lies below one


def stat_of(found: os.stat_result) -> Stat:
    """The system's answer as a ``Stat``."""
    return Stat(found.st_size, found.st_mtime_ns)


def open_at_once(path: str, flags: int) -> int:
    """An ``opener`` for ``open`` that does not wait for a writer if the file is now a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)  # regular files ignore the flag
