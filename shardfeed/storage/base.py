"""What a reader asks of a folder, wherever it is, and the errors of all storage.

Transient faults are retried inside an implementation and then raised as ``StorageError``: they are
not the data's fault.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import NamedTuple

from shardfeed.errors import IncompleteError, UsageError


class StorageError(IncompleteError):
    """A store kept failing after retries; the same command, run again, carries on."""


class UnreadableError(UsageError):
    """A folder or file that is absent or may not be read; the message names it."""


class NotFoundError(StorageError):
    """A name that is not there."""


class Stat(NamedTuple):
    """Size in bytes, version and, where the store knows it without reading, crc32c.

    ``version``: the generation on GCS; on a disk the mtime in nanoseconds.
    """

    size: int
    version: int
    crc32c: int | None = None


class Store(abc.ABC):
    """A folder to read from. Names are ASCII, relative, ``/``-separated."""

    url: str

    @abc.abstractmethod
    def read(self, name: str) -> bytes:
        """The whole content. Raises NotFoundError."""

    @abc.abstractmethod
    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``. Raises NotFoundError."""

    @abc.abstractmethod
    def read_range_with_stat(self, name: str, offset: int, size: int) -> tuple[bytes, Stat | None]:
        """As ``read_range``, and the stat of this version; None where the store does not tell."""

    @abc.abstractmethod
    def stat(self, name: str) -> Stat | None:
        """None when the name is not there. On a disk ``crc32c`` is None."""

    @abc.abstractmethod
    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Every file whose name starts with ``prefix``, recursively.

        A missing folder lists as empty.
        """
