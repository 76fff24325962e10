"""``s3://bucket/prefix`` and ``az://container/prefix`` as an input root.

An image is read in the version that was listed: its ETag is compared, as its CRC-32C, which fits
where a generation of Google's does. Neither cloud lists a checksum of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardfeed.errors import clip
from shardfeed.storage import NotFoundError, Stat, UnreadableError, join_url
from shardfeed.storage.object_store import ObjectStore
from shardfeed.transforms.sources.base import ChangedError, Listed, Source


class ObjectSource(Source):
    """A bucket prefix. Each first-level "folder" is a section (slash included).

    If there are objects beside the folders, section ``b""`` is those.
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
        folders, beside = self._store.top()
        if not (folders or beside):
            self.check()
        return [b""] * bool(beside) + [folder.encode() for folder in folders]

    def list(self, section: bytes) -> Iterator[Listed]:
        found = self._store.list(section.decode()) if section else self._store.top()[1]
        return (Listed(name.encode(), stat) for name, stat in found)

    def read(self, key: bytes, stat: Stat) -> bytes:
        try:
            data, now = self._store.read_with_stat(key.decode())
        except NotFoundError:
            now = None
        if now != stat:
            raise ChangedError(f"{join_url(self.url, clip(key))} is gone or overwritten since the listing")
        return data
