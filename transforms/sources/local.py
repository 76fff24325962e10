"""An input root on a local or mounted disk.

Paths are bytes from end to end. A file name on a disk is bytes, keys are promised byte for byte,
and names that are not UTF-8 exist; a later step refuses them by name, nothing is lost or changed
here. ``os.walk`` is not used: it skips folders that it may not read, which loses whole classes
without a word.
"""

from __future__ import annotations

import errno
import functools
import os
import stat as stat_module
from collections.abc import Iterator

from shardfeed.errors import clip
from shardfeed.storage import Stat, StorageError, UnreadableError, retry
from shardfeed.transforms.sources.base import ChangedError, FileSource, Listed

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO})
# Seconds between attempts: network and notebook drives answer EIO or ESTALE now and then, and are
# fine right after.
_PAUSES = (0.1, 0.5, 2.0)

# Do not wait for a writer if the file is now a pipe; regular files ignore O_NONBLOCK.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class LocalSource(FileSource):
    """A folder of files.

    Its first-level folders are its sections; section ``b""`` is everything else at the top.
    """

    def __init__(self, root: str) -> None:
        self.url = root
        self._root = os.fsencode(os.path.expanduser(root))

    @functools.cached_property
    def _resolved(self) -> bytes:
        return os.path.realpath(self._root)

    def check(self) -> None:
        if not self.url:
            raise UnreadableError('the input is an empty string. Name a folder, for example --input "$HOME/photos".')
        with self._scan(b""):
            pass

    def sections(self) -> list[bytes]:
        self.check()
        with self._scan(b"") as entries:
            return [b"", *sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))]

    def list(self, section: bytes) -> Iterator[Listed]:
        folders = [section]
        while folders:
            folder = folders.pop()
            with self._scan(folder) as entries:
                for entry in entries:
                    key = folder + b"/" + entry.name if folder else entry.name
                    if not entry.is_dir(follow_symlinks=False):
                        if (found := self._listed(key, entry)) is not None:
                            yield found
                    elif section:
                        folders.append(key)

    def find(self, key: bytes) -> Listed | None:
        try:
            found = os.lstat(path := self._path(key))
            return None if stat_module.S_ISDIR(found.st_mode) else self._listed_as(key, path, found)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise UnreadableError(f"{clip(self._path(key))} cannot be looked at: {error.strerror}.") from error

    def read(self, key: bytes, stat: Stat) -> bytes:
        return self.read_range(key, stat, 0, stat.size)

    def read_range(self, key: bytes, stat: Stat, offset: int, size: int) -> bytes:
        for pause in (*_PAUSES, None):
            try:
                return self._read(key, stat, offset, size)
            except OSError as error:
                if error.errno in _GONE:
                    raise ChangedError(f"{clip(key)} is gone since the listing") from error
                if error.errno in (errno.EACCES, errno.EPERM):
                    raise UnreadableError(
                        f"no permission to read {clip(self._path(key))}. Make it readable "
                        f"(chmod u+r FILE; for all: chmod -R u+rX {clip(self.url)}) or move it out of the input."
                    ) from error
                if pause is None:
                    raise StorageError(
                        f"cannot read {clip(self._path(key))}: {error.strerror}, {len(_PAUSES) + 1} times. "
                        "Check the disk or its mount, then run the same command again."
                    ) from error
                retry.wait(pause)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, key: bytes, stat: Stat, offset: int, size: int) -> bytes:
        file = os.open(self._path(key), _FLAGS)  # 18 us per image cheaper than a file object
        try:
            found = os.fstat(file)
            if _stat(found) != stat or not stat_module.S_ISREG(found.st_mode):
                raise ChangedError(f"{clip(key)} changed since the listing")
            size = max(min(size, stat.size - offset), 0)
            data = os.pread(file, size, offset)
            while len(data) < size:  # a network drive may give less per call
                more = os.pread(file, size - len(data), offset + len(data))
                if not more:
                    raise ChangedError(f"{clip(key)} became shorter while it was read")
                data += more
            if _stat(os.fstat(file)) != stat:  # written in place meanwhile: the bytes may be of both versions
                raise ChangedError(f"{clip(key)} changed while it was read")
            return data
        finally:
            os.close(file)

    def _path(self, key: bytes) -> bytes:
        return self._root + b"/" + key if key else self._root

    def _scan(self, folder: bytes) -> os._ScandirIterator[bytes]:
        path = self._path(folder)
        try:
            return os.scandir(path)
        except OSError as error:
            if error.errno == errno.ENOENT and not folder:
                said = "does not exist. Check the spelling; relative paths start at the current folder."
            elif error.errno == errno.ENOTDIR and not folder:
                said = "is not a folder. Name the folder that holds one folder per class; a list of images is written @FILE."
            elif error.errno in (errno.EACCES, errno.EPERM):
                said = (
                    f"may not be listed. Make it readable (chmod -R u+rX {clip(self.url)}) or move it out of the input."
                )
            else:
                said = f"cannot be listed: {error.strerror}. Check the disk, or that nothing moves folders while they are listed."
            raise UnreadableError(f"input folder {clip(path)} {said}") from error

    def _listed(self, key: bytes, entry: os.DirEntry[bytes]) -> Listed | None:
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # removed since it was listed
            return None
        except PermissionError as error:
            raise UnreadableError(
                f"input folder {clip(os.path.dirname(entry.path))} may be listed but not entered. Make it "
                f"readable (chmod -R u+rX {clip(self.url)}) or move it out of the input."
            ) from error
        return self._listed_as(key, entry.path, found)

    def _listed_as(self, key: bytes, path: bytes, found: os.stat_result) -> Listed:
        mode = found.st_mode
        if stat_module.S_ISLNK(mode):
            target = self._target(path)
            return Listed(key, _stat(found), "symlink") if target is None else Listed(key, target)
        return Listed(key, _stat(found), "file" if stat_module.S_ISREG(mode) else "special")

    def _target(self, path: bytes) -> Stat | None:
        """Size and version of the regular file under the root that a link leads to, else None."""
        if not os.path.realpath(path).startswith(self._resolved.rstrip(b"/") + b"/"):
            return None
        try:
            found = os.stat(path)
        except OSError:  # dangling, a loop, or on a path that may not be walked
            return None
        return _stat(found) if stat_module.S_ISREG(found.st_mode) else None


def _stat(found: os.stat_result) -> Stat:
    """Size and version: the low 64 bits of the mtime in nanoseconds. Times after 2262 need more."""
    return Stat(found.st_size, (found.st_mtime_ns + 2**63) % 2**64 - 2**63)
