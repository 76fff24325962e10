"""``gs://bucket/prefix`` as an input root.

An image is read in the generation that was listed and compared with the size and crc32c of the
listing. So an object that is overwritten under a running build is a reject with a reason and never
a mixed record.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardfeed.errors import clip
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.storage import NotFoundError, Stat, UnreadableError, retry
from shardfeed.storage.gcs import GcsStore
from shardfeed.transforms.sources.base import ChangedError, ChecksumError, FileSource, Listed

_CHECKSUM_ATTEMPTS = 4  # a flipped bit on the way is gone the second time; one in the stored bytes never is
_UNPACKED = " (stored with Content-Encoding: gzip and unpacked on the way? Upload it again without)"


class GcsSource(FileSource):
    """A bucket prefix. Each first-level "folder" is a section (slash included).

    If there are objects beside the folders, section ``b""`` is those.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = GcsStore(url)

    def check(self) -> None:
        if not any(page.objects for page in self._store.pages(most=1)):
            raise self._empty()

    def sections(self) -> list[bytes]:
        folders, beside = list[bytes](), False
        for page in self._store.pages(delimiter="/"):
            folders += [folder.encode() for folder in page.folders]
            beside = beside or bool(page.objects)
        if not (folders or beside):
            raise self._empty()
        return [b""] * beside + folders

    def list(self, section: bytes) -> Iterator[Listed]:
        for page in self._store.pages(section.decode(), delimiter=None if section else "/"):
            for name, stat in page.objects:
                if name:  # the root's own marker is the root, not something below it
                    yield _listed(name, stat)

    def find(self, key: bytes) -> Listed | None:
        stat = self._store.stat(key.decode())
        return None if stat is None else _listed(key.decode(), stat)

    def read(self, key: bytes, stat: Stat) -> bytes:
        for attempt in range(_CHECKSUM_ATTEMPTS):
            if attempt:
                retry.wait(retry.pause_after(attempt))
            try:
                data = self._store.read_unchecked(key.decode(), stat.version)
            except NotFoundError as error:
                raise self._gone(key) from error
            found = crc32c(data)
            if len(data) == stat.size and stat.crc32c in (found, None):
                return data
        expected = "unknown" if stat.crc32c is None else to_hex(stat.crc32c)
        raise ChecksumError(
            f"{clip(key)}: read {len(data):,} bytes with crc32c {to_hex(found)}, {_CHECKSUM_ATTEMPTS} times; "
            f"the listing says {stat.size:,} bytes, crc32c {expected}" + (_UNPACKED if len(data) > stat.size else "")
        )

    def read_range(self, key: bytes, stat: Stat, offset: int, size: int) -> bytes:
        try:
            return self._store.read_range(key.decode(), offset, size, stat.version)
        except NotFoundError as error:
            raise self._gone(key) from error

    def _gone(self, key: bytes) -> ChangedError:
        name = clip(self._store.prefix + key.decode())
        return ChangedError(f"gs://{self._store.bucket}/{name} is gone or overwritten since the listing")

    def _empty(self) -> UnreadableError:
        return UnreadableError(
            f"input {clip(self.url)} has no objects. Check the spelling; list what is there with: gcloud storage ls gs://"
            f"{self._store.bucket}"
        )


def _listed(name: str, stat: Stat) -> Listed:
    is_marker = name.endswith("/") and not stat.size
    return Listed(name.encode(), stat, "folder_marker" if is_marker else "file")
