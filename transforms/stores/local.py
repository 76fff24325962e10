"""An output folder on a local or mounted disk.

Complete bytes go to a temporary file with a name of its own; ``os.link`` then gives them their
name. ``link`` fails when the name exists, ``os.replace`` does not: only ``link`` is create-only,
also between processes that know nothing of each other. Where hard links do not exist (mounted
drives in notebooks), a marker file opened with ``O_EXCL`` guards the ``replace``. That is
create-only among our own writers, and the best that such a drive can do.

Every step that changes the disk is a method of its own, so that a test can kill the process before
any of them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c_path
from shardfeed.storage import retry
from shardfeed.storage.base import StorageError
from shardfeed.storage.local import LocalStore
from shardfeed.storage.local_errors import WRITE_ERRNOS, explained
from shardfeed.transforms.stores.base import WritableStore

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
_NO_COPY_RANGE = frozenset({errno.EXDEV, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})  # some mounted drives
_ATTEMPTS = 10  # a sweep can remove a folder once per pass; ten times in a row is something else
_COPY_RANGE_BYTES = 1 << 30  # asked of one copy_file_range call; the kernel does about 2 GiB at most
_BUFFER_BYTES = 1 << 20


class WritableLocalStore(LocalStore, WritableStore):
    """A folder; made on the first write."""

    stale_marker_seconds = 10.0  # a live writer holds a marker for two system calls; a dead one for ever

    def checksum(self, name: str) -> tuple[int, int]:
        with self.reading(name):
            return crc32c_path(self.path(name))

    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        with explained(self.path(name), "write", self.root, len(data)):
            return self._publish(name, lambda temp: self._write_temp(temp, data, durable), durable=durable)

    def compose(self, name: str, sources: Sequence[str], *, scratch: str) -> bool:
        with explained(self.path(name), "write", self.root):
            return self._publish(name, lambda temp: self._concatenate_temp(temp, sources), durable=True)

    def delete(self, name: str, version: int | None = None) -> None:
        with explained(self.path(name), "delete", self.root):
            self._unlink(self.path(name))

    def prune(self, folder: str) -> None:
        top = self.path(folder)
        with explained(top, "delete", self.root):
            for parent, _, _ in os.walk(top, topdown=False):
                try:
                    self._rmdir(parent)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                        raise

    def _publish(self, name: str, write: Callable[[str], None], *, durable: bool) -> bool:
        final = self.path(name)
        if os.path.lexists(final):
            return False
        folder = self.path(_temporary_folder(name))
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
            except FileNotFoundError:  # another build's sweep removed the folder or the file meanwhile
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
            found = b""
            with contextlib.suppress(FileNotFoundError), open(marker, "rb") as file:
                found = file.read()
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
        with open(path, "xb") as file:
            file.write(data)
            _flush(file, durable=durable)

    def _concatenate_temp(self, path: str, sources: Sequence[str]) -> None:
        with open(path, "xb") as file:
            for source in sources:
                failure = None
                with self.reading(source), open(self.path(source), "rb") as data:
                    try:
                        _append(file, data)
                    except OSError as error:  # one call reads and writes: whose fault it was is in the errno alone
                        if error.errno not in WRITE_ERRNOS:
                            raise
                        failure = error
                if failure is not None:
                    raise failure
            _flush(file, durable=True)

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
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(folder)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def _rmdir(self, path: str) -> None:
        os.rmdir(path)


def _temporary_folder(name: str) -> str:
    """In the work folder that is swept together with ``name``, on the same disk for hard links."""
    top, _, rest = name.partition("/")
    work, slash, _ = rest.partition("/")
    return f"{top}/{work}/tmp" if top == naming.PARTS and slash else f"{naming.PARTS}/tmp"


def _append(file: BinaryIO, data: BinaryIO) -> None:
    """Copies ``data`` to the end of ``file``, inside the kernel where it can."""
    file.flush()
    if hasattr(os, "copy_file_range"):  # Linux
        try:
            while os.copy_file_range(data.fileno(), file.fileno(), _COPY_RANGE_BYTES):
                pass
        except OSError as error:
            if error.errno not in _NO_COPY_RANGE:
                raise
    file.seek(0, os.SEEK_END)
    shutil.copyfileobj(data, file, _BUFFER_BYTES)  # reads on where the kernel's copy ended


def _flush(file: BinaryIO, *, durable: bool) -> None:
    file.flush()
    if durable:
        os.fsync(file.fileno())
