"""An output folder on a local or mounted disk.

The one decision: complete bytes go to a temporary file with a name of its own, then ``os.link`` gives them their name.
``link`` fails when the name exists, ``os.replace`` does not: only the first is create-only, also between processes that
know nothing of each other. Where hard links do not exist (mounted drives in notebooks), a marker file opened with
``O_EXCL`` guards the ``replace``; that is create-only among our own writers, and the best such a drive can do.

Every step that changes the disk is a method of its own, so that a test can kill the process before any of them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c_path
from shardfeed.storage import retry
from shardfeed.storage.base import NotFoundError, Stat, StorageError, Store
from shardfeed.storage.local_errors import OF_WRITING, translated
from shardfeed.storage.local_source import LocalSource

__all__ = ["LocalSource", "LocalStore"]

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
_NO_COPY_RANGE = frozenset({errno.EXDEV, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
_LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # of a link
_ATTEMPTS = 10  # a sweep can take a folder away once a pass; ten in a row is something else
_COPY_BYTES = 1 << 30  # bytes a copy_file_range call is asked for; the kernel does about 2 GiB at most


class LocalStore(Store):
    """A folder; made on the first write."""

    stale_marker_seconds = 10.0  # a live writer holds a marker for two system calls; a dead one for ever

    def __init__(self, root: str) -> None:
        self.url = root
        self._root = os.path.expanduser(root)

    def read(self, name: str) -> bytes:
        with self._reading(name), open(self._path(name), "rb", buffering=0, opener=_open_at_once) as file:
            return file.readall() or b""

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        with self._reading(name), open(self._path(name), "rb", opener=_open_at_once) as file:
            file.seek(offset)
            return file.read(size)

    def stat(self, name: str) -> Stat | None:
        with translated(self._path(name), "read", self._root):
            try:
                found = os.stat(self._path(name))
            except (FileNotFoundError, NotADirectoryError):
                return None
        return Stat(found.st_size, found.st_mtime_ns)

    def checksum(self, name: str) -> tuple[int, int]:
        with self._reading(name):
            return crc32c_path(self._path(name))

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        folders = [prefix.rpartition("/")[0]]
        while folders:
            folder = folders.pop()
            for entry in self._scan(folder):
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name.startswith(prefix):
                        folders.append(name)
                elif name.startswith(prefix):
                    found = self._stat_of(entry, name)
                    if found is not None:
                        yield name, found

    def create(self, name: str, data: bytes | BinaryIO, *, durable: bool = False) -> bool:
        start = 0 if isinstance(data, bytes) else data.tell()
        size = len(data) if isinstance(data, bytes) else data.seek(0, os.SEEK_END) - start

        def write(temp: str) -> None:
            if isinstance(data, bytes):
                self._write_temp(temp, data, durable)
            else:
                data.seek(start)
                self._copy_temp(temp, data, durable)

        with translated(self._path(name), "write", self._root, size):
            return self._publish(name, write, durable)

    def compose(self, name: str, sources: Sequence[str], *, scratch: str, durable: bool = False) -> bool:
        with translated(self._path(name), "write", self._root):
            return self._publish(name, lambda temp: self._concatenate_temp(temp, sources, durable), durable)

    def delete(self, name: str, version: int | None = None) -> None:
        with translated(self._path(name), "delete", self._root):
            self._unlink(self._path(name))

    def prune(self, folder: str) -> None:
        top = self._path(folder)
        with translated(top, "delete", self._root):
            for parent, _, _ in os.walk(top, topdown=False):
                try:
                    self._rmdir(parent)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                        raise

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name) if name else self._root

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        with translated(self._path(name), "read", self._root):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise NotFoundError(
                    f"{self._path(name)} is not there. If nobody removed it, run the same command again."
                ) from None

    def _stat_of(self, entry: os.DirEntry[str], name: str) -> Stat | None:
        """A listed file's; None where it was removed while we list: then it is not there."""
        with translated(self._path(name), "read", self._root):
            try:
                try:
                    found = entry.stat()  # a dataset may be links to files elsewhere, as caches keep them
                except OSError as error:
                    if error.errno not in _LEADS_NOWHERE:
                        raise
                    found = entry.stat(follow_symlinks=False)  # a dangling link, or gone by now
            except FileNotFoundError:
                return None
        return Stat(found.st_size, found.st_mtime_ns)

    def _scan(self, folder: str) -> Sequence[os.DirEntry[str]]:
        with translated(self._path(folder), "read", self._root):
            try:
                with os.scandir(self._path(folder)) as entries:
                    return sorted(entries, key=lambda entry: entry.name)
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                if (
                    not folder
                ):  # the output is a file or lies below one: not the same as an output that is not there yet
                    raise
                return []

    def _publish(self, name: str, write: Callable[[str], None], durable: bool) -> bool:
        final = self._path(name)
        if os.path.lexists(final):
            return False
        folder = self._path(_temporary_folder(name))
        for _ in range(_ATTEMPTS):
            temp = os.path.join(folder, f"tmp-{os.getpid()}-{os.urandom(8).hex()}")
            try:
                self._mkdir(folder)
                self._mkdir(os.path.dirname(final))
                write(temp)
                created = self._name(temp, final, name)
                if durable:
                    self._sync_folder(os.path.dirname(final))
                return created
            except FileNotFoundError:  # another build's sweep took the folder or the file from under our feet
                continue
            finally:
                self._unlink(temp)
        raise StorageError(
            f"{folder} disappears again and again while {name} is written. "
            "Another process is deleting files in this output: stop it, then run the same command again."
        )

    def _name(self, temp: str, final: str, name: str) -> bool:
        try:
            self._link(temp, final)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
        marker = os.path.join(os.path.dirname(temp), name.replace("/", "+") + ".marker")
        if not self._hold(marker, final, os.path.basename(temp).encode()):
            return False
        try:
            if os.path.lexists(final):
                return False
            self._replace(temp, final)
            return True
        finally:
            self._unlink(marker)

    def _hold(self, marker: str, final: str, owner: bytes) -> bool:
        """True once the marker is ours; False when another writer has finished ``final``."""
        holder, since = b"", time.monotonic()
        while not self._mark(marker, owner):
            if os.path.lexists(final):
                return False
            found = _content(marker)
            if found != holder:
                holder, since = found, time.monotonic()
            elif time.monotonic() - since >= self.stale_marker_seconds:
                self._unlink(marker)  # its writer was killed between two system calls
            else:
                retry.sleep(0.01)
        return True

    # One step on the disk each: where a test kills the process.

    def _mkdir(self, path: str) -> None:
        os.makedirs(path or ".", exist_ok=True)

    def _write_temp(self, path: str, data: bytes, durable: bool) -> None:
        with open(path, "xb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            if durable:
                os.fsync(file.fileno())

    def _copy_temp(self, path: str, data: BinaryIO, durable: bool) -> None:
        with open(path, "xb") as file:
            shutil.copyfileobj(data, file, 1 << 20)
            _flush(file, durable)

    def _concatenate_temp(self, path: str, sources: Sequence[str], durable: bool) -> None:
        with open(path, "xb") as file:
            for source in sources:
                failure = None
                with self._reading(source), open(self._path(source), "rb") as data:
                    try:
                        _append(file, data)
                    except OSError as error:  # one call reads and writes: whose fault it was is in the errno alone
                        if error.errno not in OF_WRITING:
                            raise
                        failure = error
                if failure is not None:
                    raise failure
            _flush(file, durable)

    def _link(self, temp: str, final: str) -> None:
        os.link(temp, final)

    def _mark(self, marker: str, owner: bytes) -> bool:
        try:
            with open(marker, "xb") as file:
                file.write(owner)
        except FileExistsError:
            return False
        return True

    def _replace(self, temp: str, final: str) -> None:
        os.replace(temp, final)

    def _sync_folder(self, path: str) -> None:
        folder = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno not in (
                errno.EINVAL,
                errno.ENOTSUP,
                errno.EBADF,
            ):  # mounted drives that cannot sync a folder
                raise
        finally:
            os.close(folder)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def _rmdir(self, path: str) -> None:
        os.rmdir(path)


def _temporary_folder(name: str) -> str:
    """Inside the work folder that is swept together with ``name``, and on the same disk, which a hard link needs."""
    top, _, rest = name.partition("/")
    work, slash, _ = rest.partition("/")
    return f"{top}/{work}/tmp" if top == naming.PARTS and slash else f"{naming.PARTS}/tmp"


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _append(file: BinaryIO, data: BinaryIO) -> None:
    """Copies ``data`` to the end of ``file``, inside the kernel where it can."""
    file.flush()
    if hasattr(os, "copy_file_range"):  # Linux
        try:
            while os.copy_file_range(data.fileno(), file.fileno(), _COPY_BYTES):
                pass
        except OSError as error:
            if error.errno not in _NO_COPY_RANGE:
                raise
    file.seek(0, os.SEEK_END)
    data.seek(os.lseek(data.fileno(), 0, os.SEEK_CUR))
    shutil.copyfileobj(data, file, 1 << 20)


def _flush(file: BinaryIO, durable: bool) -> None:
    file.flush()
    if durable:
        os.fsync(file.fileno())


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe in a file's place would wait for a writer
