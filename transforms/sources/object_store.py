"""``s3://bucket/prefix`` and ``az://container/prefix`` as an input root.

An image is read in the version that was listed: its ETag is compared, as its CRC-32C, which fits
where a generation of Google's does. Neither cloud lists a checksum of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shardfeed.errors import clip
from shardfeed.storage import NotFoundError, Stat, UnreadableError, join_url
from shardfeed.storage.object_store import ObjectStore
from shardfeed.transforms.sources.base import ChangedError, FileSource, Listed

_EVERYTHING = b"/"  # a section
_MANY = 1_000  # names; fewer at the root are listed at once


class ObjectSource(FileSource):
    """A bucket prefix. Each first-level "folder" is a section (slash included).

    If there are objects beside the folders, section ``b""`` is those. obstore gives the names of a
    level at once, which millions of objects side by side do not allow: if most of the first
    thousand names lie directly at the root, everything is one section that is read page by page.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = ObjectStore(url)

    def check(self) -> None:
        if next(self._store.list(), None) is None:
            raise UnreadableError(
                f"input {clip(self.url)} has no objects. Check the spelling; names are case-sensitive."
            )

    def sections(self) -> list[bytes]:
        names = self._store.first_names()
        if 2 * sum("/" not in name for name in names) > len(names) >= _MANY:
            return [_EVERYTHING]
        folders, beside = self._store.top()
        if not (folders or beside):
            self.check()
        return [b""] * bool(beside) + [folder.encode() for folder in folders]

    def list(self, section: bytes) -> Iterator[Listed]:
        found = self._store.list(section.decode().lstrip("/")) if section else self._store.top()[1]
        return (Listed(name.encode(), stat) for name, stat in found)

    def find(self, key: bytes) -> Listed | None:
        stat = self._store.stat(key.decode())
        return None if stat is None else Listed(key, stat)

    def read(self, key: bytes, stat: Stat) -> bytes:
        return self._in_version(key, stat, lambda: self._store.read_with_stat(key.decode()))

    def read_range(self, key: bytes, stat: Stat, offset: int, size: int) -> bytes:
        if offset >= stat.size or not size:
            return b""
        return self._in_version(key, stat, lambda: self._store.read_range_with_stat(key.decode(), offset, size))

    def _in_version(self, key: bytes, stat: Stat, read: Callable[[], tuple[bytes, Stat | None]]) -> bytes:
        try:
            data, now = read()
        except NotFoundError:
            now = None
        if now != stat:
            raise ChangedError(f"{join_url(self.url, clip(key))} is gone or overwritten since the listing")
        return data
