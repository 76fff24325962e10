"""``gs://bucket/prefix`` as an input root and as an output folder.

The one decision: pin what was listed. An image is read in the generation, and compared with the size and crc32c, that the
listing gave, so that an object overwritten under a running build is a reject with a reason and never a mixed record.
Outputs carry ``ifGenerationMatch=0``: a lost acknowledgement, a retried bundle and a second writer all get «exists», and
the caller compares contents (``storage.publish``).
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from shardfeed.errors import UsageError, clip
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.storage import retry
from shardfeed.storage.base import ChecksumError, Listed, NotFoundError, Source, Stat, Store, UnreadableError
from shardfeed.storage.gcs_bucket import MAX_COMPOSE, Bucket, parse_url

_CHECKSUM_ATTEMPTS = 4  # a flipped bit on the way is gone the second time; one in the stored bytes never is

_UNPACKED = " (stored with Content-Encoding: gzip and unpacked on the way? Upload it again without)"


class GcsSource(Source):
    """A bucket prefix. Its first-level «folders» are its sections, slash included; ``b""`` is every object beside them,
    where there is one.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        bucket, self._prefix = parse_url(url)
        self._bucket = Bucket(bucket)

    def check(self) -> None:
        page = self._bucket.page(self._prefix, None, most=1)
        if not (page.objects or page.next_token):
            raise self._empty()

    def sections(self) -> list[bytes]:
        folders: builtins.list[bytes] = []
        beside, token = False, None
        while True:
            page = self._bucket.page(self._prefix, token, delimiter="/")
            folders += [self._key(prefix) for prefix in page.prefixes]
            beside = beside or bool(page.objects)
            token = page.next_token
            if not token:
                break
        if not (folders or beside):
            raise self._empty()
        return [b""] * beside + folders

    def list(self, section: bytes) -> Iterator[Listed]:
        prefix, token = self._prefix + section.decode(), None
        while True:
            page = self._bucket.page(prefix, token, delimiter=None if section else "/")
            for name, stat in page.objects:
                key = self._key(name)
                if key:  # the root's own marker is the root, not something below it
                    yield Listed(key, stat, "folder_marker" if key.endswith(b"/") and not stat.size else "file")
            token = page.next_token
            if not token:
                return

    def read(self, key: bytes, stat: Stat) -> bytes:
        name = self._prefix + key.decode()
        for attempt in range(_CHECKSUM_ATTEMPTS):
            if attempt:
                retry.wait(retry.pause_after(attempt))
            data = self._bucket.read_version(name, stat.version)
            found = crc32c(data)
            if len(data) == stat.size and stat.crc32c in (found, None):
                return data
        expected = "unknown" if stat.crc32c is None else to_hex(stat.crc32c)
        raise ChecksumError(
            f"{clip(key)}: read {len(data):,} bytes with crc32c {to_hex(found)}, {_CHECKSUM_ATTEMPTS} times; "
            f"the listing says {stat.size:,} bytes, crc32c {expected}" + (_UNPACKED if len(data) > stat.size else "")
        )

    def _key(self, name: str) -> bytes:
        return name[len(self._prefix) :].encode()

    def _empty(self) -> UnreadableError:
        return UnreadableError(
            f"input {clip(self.url)} has no objects. Check the spelling; list what is there with: gcloud storage ls gs://"
            f"{self._bucket.name}"
        )


class GcsStore(Store):
    """A bucket prefix that a dataset is written to."""

    def __init__(self, url: str) -> None:
        self.url = url
        bucket, self._prefix = parse_url(url)
        self._bucket = Bucket(bucket)

    def read(self, name: str) -> bytes:
        return self._bucket.read(self._prefix + name)

    def read_sealed(self, name: str) -> bytes:
        return self._bucket.read_unchecked(self._prefix + name)

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        return self._bucket.read_range(self._prefix + name, offset, size)

    def stat(self, name: str) -> Stat | None:
        return self._bucket.stat(self._prefix + name)

    def checksum(self, name: str) -> tuple[int, int]:
        stat = self.stat(name)
        if stat is None:
            raise NotFoundError(f"{self.url.rstrip('/')}/{name} is not there.")
        return stat.size, crc32c(self.read(name)) if stat.crc32c is None else stat.crc32c

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        token = None
        while True:
            page = self._bucket.page(self._prefix + prefix, token)
            for name, stat in page.objects:
                if name != self._prefix:  # the folder's own marker, which a console makes
                    yield name[len(self._prefix) :], stat
            token = page.next_token
            if not token:
                return

    def create(self, name: str, data: bytes | BinaryIO, *, durable: bool = False) -> bool:
        return self._bucket.create(self._prefix + name, io.BytesIO(data) if isinstance(data, bytes) else data)

    def compose(self, name: str, sources: Sequence[str], *, scratch: str, durable: bool = False) -> bool:
        level = list(sources)
        made: builtins.list[str] = []
        attempt = os.urandom(8).hex()  # two workers may compose the same shard at the same time
        try:
            while len(level) > MAX_COMPOSE:
                groups = [level[start : start + MAX_COMPOSE] for start in range(0, len(level), MAX_COMPOSE)]
                level = []
                for group in groups:
                    made.append(f"{scratch.rstrip('/')}/compose-{attempt}-{len(made):05d}")
                    self._compose(made[-1], group)
                    level.append(made[-1])
            return self._compose(name, level)
        finally:
            self._remove(made)

    def delete(self, name: str, version: int | None = None) -> None:
        self._bucket.delete(self._prefix + name, version)

    def _compose(self, name: str, sources: Sequence[str]) -> bool:
        return self._bucket.compose(self._prefix + name, [self._prefix + source for source in sources])

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self.delete(name)
            except UsageError:  # no permission to delete: they lie below _parts/, whose sweep reports it once
                return
