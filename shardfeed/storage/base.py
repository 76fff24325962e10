"""What a store must be able to do; the only module that knows is ``shardfeed.storage``.

Two roles. A ``Source`` is an input root: it lists what is there and reads exactly the version that was listed; it has no
method that writes (the input is never touched). A ``Store`` is an output folder: complete bytes, create-only, or nothing.
Transient faults are retried inside an implementation, then raised as ``StorageError``: they are not an image's fault.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal

from shardfeed.errors import IncompleteError, UsageError


class StorageError(IncompleteError):
    """A store kept failing after retries; rerunning the same command carries on."""


class UnreadableError(UsageError):
    """An input root or folder that is absent or may not be listed; the message names it."""


class NotFoundError(StorageError):
    """A name that is not there."""


class ChangedError(Exception):
    """The listed version of an object is gone: overwritten or deleted since the listing."""


class ChecksumError(Exception):
    """The bytes read are not the bytes listed, after retries."""


@dataclass(frozen=True, slots=True)
class Stat:
    """Size in bytes, version (GCS generation; local: mtime in ns), and crc32c where the store knows it without reading."""

    size: int
    version: int
    crc32c: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of an input listing. ``key`` = bytes of the path below the root, ``/``-separated.

    ``kind``: a ``file``; a ``symlink`` that is not followed (its target is a folder, is missing or lies outside the root);
    a ``special`` file (device, socket, pipe); a GCS ``folder_marker`` (a zero-byte object whose name ends in ``/``).
    """

    key: bytes
    stat: Stat
    kind: Literal["file", "symlink", "special", "folder_marker"] = "file"


class Source(abc.ABC):
    """An input root (a folder or a bucket prefix)."""

    url: str

    @abc.abstractmethod
    def check(self) -> None:
        """One request, to see before anything is started whether there is something to list.

        Raises:
            UnreadableError: the root is absent or may not be listed.
        """

    @abc.abstractmethod
    def sections(self) -> list[bytes]:
        """Disjoint pieces of the root that can be listed side by side; opaque, a few dozen bytes each.

        Raises:
            UnreadableError: the root is absent or may not be listed.
        """

    @abc.abstractmethod
    def list(self, section: bytes) -> Iterator[Listed]:
        """Everything in one section, recursively, in any order, nothing left out.

        Raises:
            UnreadableError: a folder may not be listed; named in the message.
        """

    @abc.abstractmethod
    def read(self, key: bytes, stat: Stat) -> bytes:
        """The bytes of the listed version.

        Raises:
            ChangedError, ChecksumError, StorageError.
        """


class Store(abc.ABC):
    """An output folder. Names are ASCII, relative, ``/``-separated."""

    url: str

    @abc.abstractmethod
    def read(self, name: str) -> bytes:
        """Whole content. Raises NotFoundError."""

    def read_sealed(self, name: str) -> bytes:
        """``read`` of a file that holds its own checksum, which the caller compares. Raises NotFoundError."""
        return self.read(name)

    @abc.abstractmethod
    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``. Raises NotFoundError."""

    @abc.abstractmethod
    def stat(self, name: str) -> Stat | None:
        """None when the name is not there. Local: ``crc32c`` is None (see ``checksum``)."""

    @abc.abstractmethod
    def checksum(self, name: str) -> tuple[int, int]:
        """(size in bytes, crc32c) of what is stored: asked of the store where it knows, else read. Raises NotFoundError."""

    @abc.abstractmethod
    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Every file whose name starts with ``prefix``, recursively. A missing folder lists as empty."""

    @abc.abstractmethod
    def create(self, name: str, data: bytes | BinaryIO, *, durable: bool = False) -> bool:
        """Create-only write of complete bytes. False: the name is already there (nothing is changed).

        ``data`` may be a seekable binary file, written from its current position. ``durable``: survives a power cut.
        """

    @abc.abstractmethod
    def compose(self, name: str, sources: Sequence[str], *, scratch: str, durable: bool = False) -> bool:
        """Create-only concatenation of stored files. False: the name is already there.

        ``scratch`` is a name prefix under which intermediates may be made and are removed again.
        """

    @abc.abstractmethod
    def delete(self, name: str, version: int | None = None) -> None:
        """Remove one file (only that version, where given and the store has versions). Missing is fine."""

    def prune(self, folder: str) -> None:  # noqa: B027 (stores without folders have nothing to do)
        """Remove ``folder`` and the folders below it that are empty. Nothing to do on object stores."""
