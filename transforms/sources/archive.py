"""What zip and tar have in common: one file in a folder or a bucket, whose members are the images.

Nothing is ever unpacked to a disk. So ``../`` in a name could not write anywhere; but such a name
is no key, and an archive that holds one was made by an accident or an attack. It is refused.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Iterator

from shardfeed.errors import UsageError, clip
from shardfeed.transforms.sources.base import FileSource, Listed, Source
from shardfeed.transforms.sources.range_file import File

_SUFFIXES = re.compile(r"\.(zip|tar|tgz|tbz2?|txz|tar\.[a-z0-9]{2,4})$", re.IGNORECASE)
UNSAFE_PATH = re.compile(rb"(^|/)(\.\.?)?(/|$)|\0")  # absolute, or with an empty part, "." or ".."


def archive_suffix(url: str) -> str:
    """The ending that makes ``url`` an archive, in lower case; empty if it is none."""
    found = _SUFFIXES.search(url)
    return found[1].lower() if found else ""


class ArchiveSource(Source):
    """An archive: one section. Opens the file when it is first asked."""

    def __init__(self, url: str, folder: FileSource) -> None:
        self.url = url
        self._folder = folder
        self._opened: File | None = None

    def check(self) -> None:
        self.file()

    def sections(self) -> list[bytes]:
        self.check()
        return [b""]

    def file(self) -> File:
        """The archive in the version that this source opened."""
        if self._opened is None:
            self._opened = File(self._folder, self.url.rpartition("/")[2])
        return self._opened

    @abc.abstractmethod
    def list(self, section: bytes) -> Iterator[Listed]:
        """As every source; the whole archive has been looked at when the last member comes.

        Raises:
            UsageError: it is damaged, encrypted, or has names that cannot be keys.
        """

    def refused(self, why: str, remedy: str) -> UsageError:
        """The error for an archive that cannot be an input."""
        return UsageError(f"--input {clip(self.url)} {why}. {remedy}")

    def doubled(self, key: bytes) -> UsageError:
        """The error for two members of one name."""
        return self.refused(
            f"holds two members of the name {clip(key)}",
            "A key is a record's name and must be unique: make the archive again from a folder.",
        )

    def key_of(self, name: bytes) -> bytes:
        """The key of a member's name: without ``./`` in front, as tar writes it.

        Raises:
            UsageError: the name leads out of the archive, or is no path.
        """
        while name.startswith(b"./"):
            name = name[2:].lstrip(b"/")
        if UNSAFE_PATH.search(name):
            raise self.refused(
                f"holds the name {clip(name)}, which is absolute or has an empty part, . or ..",
                "No member was read. Look who made the archive, and make it again from a folder.",
            )
        return name
