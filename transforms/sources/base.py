"""What a build asks of an input root. Nothing here writes: the input is never touched."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Literal, NamedTuple

from shardfeed.storage import Stat


class ChangedError(Exception):
    """The listed version of an object is gone: overwritten or deleted since the listing."""


class ChecksumError(Exception):
    """The bytes read are not the bytes listed, after retries."""


EntryKind = Literal["file", "symlink", "special", "folder_marker", "missing"]


class Listed(NamedTuple):
    """One entry of an input listing. ``key``: bytes of the path below the root, ``/``-separated.

    ``kind``: a ``file``; a ``symlink`` that is not followed (its target is a folder, is missing or
    lies outside the root) or any link in an archive; a ``special`` file (device, socket, pipe); a
    GCS ``folder_marker`` (a zero-byte object whose name ends in ``/``); ``missing``: a list names
    it, but it is not there.
    """

    key: bytes
    stat: Stat
    kind: EntryKind = "file"


class Source(abc.ABC):
    """An input root (a folder, a bucket prefix, an archive, or the files of a list)."""

    url: str

    @abc.abstractmethod
    def check(self) -> None:
        """Finds out with one request whether there is something to list.

        Raises:
            UnreadableError: the root is absent or may not be listed.
        """

    @abc.abstractmethod
    def sections(self) -> list[bytes]:
        """Disjoint pieces of the root, to be listed side by side; opaque, a few dozen bytes each.

        Raises:
            UnreadableError: the root is absent or may not be listed.
        """

    @abc.abstractmethod
    def list(self, section: bytes) -> Iterator[Listed]:
        """Everything in one section, recursively, in any order, nothing left out.

        Raises:
            UnreadableError: a folder may not be listed; the message names it.
        """

    @abc.abstractmethod
    def read(self, key: bytes, stat: Stat) -> bytes:
        """The bytes of the listed version.

        Raises:
            ChangedError, ChecksumError, StorageError.
        """


class FileSource(Source):
    """A folder or a bucket prefix, of which single files are found and read in pieces too."""

    @abc.abstractmethod
    def find(self, key: bytes) -> Listed | None:
        """One entry as ``list`` gives it, found without a listing; None if there is no file."""

    @abc.abstractmethod
    def read_range(self, key: bytes, stat: Stat, offset: int, size: int) -> bytes:
        """``size`` bytes of the listed version from ``offset`` on; fewer only at the file's end.

        Unlike ``read``, it compares no checksum.

        Raises:
            ChangedError, StorageError.
        """
