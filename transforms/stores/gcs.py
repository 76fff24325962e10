"""A bucket prefix that a dataset is written to.

Writes carry ``ifGenerationMatch=0``: a lost answer, a retried bundle and a second writer all get
"exists", and the caller compares contents (``WritableStore.publish``).
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence

import obstore
from google.api_core.exceptions import NotFound, PreconditionFailed

from shardfeed.errors import UsageError, clip
from shardfeed.format.checksums import crc32c
from shardfeed.storage import NotFoundError, join_url
from shardfeed.storage.gcs import GcsStore
from shardfeed.storage.object_clients import TIMEOUT
from shardfeed.transforms.stores.base import WritableStore

_MOST_SOURCES = 32  # of one compose request; Google's limit
_UPLOAD_BYTES = 32 << 20  # of an upload in memory at a time; a multiple of 256 KiB, as Google asks
_TYPE = "application/octet-stream"


class WritableGcsStore(GcsStore, WritableStore):
    """A bucket prefix."""

    def read_sealed(self, name: str) -> bytes:
        return self.read_unchecked(name)

    def checksum(self, name: str) -> tuple[int, int]:
        stat = self.stat(name)
        if stat is None:
            raise NotFoundError(f"{join_url(self.url, name)} is not there.")
        return stat.size, crc32c(self.read(name)) if stat.crc32c is None else stat.crc32c

    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        def upload() -> None:
            blob = self.blob(name)
            blob.chunk_size = _UPLOAD_BYTES
            blob.upload_from_file(
                io.BytesIO(data),
                size=len(data),
                content_type=_TYPE,
                if_generation_match=0,
                timeout=TIMEOUT,
                checksum="auto",
                retry=None,
            )

        return self._unless_exists(name, upload)

    def compose(self, name: str, sources: Sequence[str], *, scratch: str) -> bool:
        level, made = list(sources), list[str]()
        attempt = os.urandom(8).hex()  # two workers may compose the same shard at the same time
        try:
            while len(level) > _MOST_SOURCES:
                below, level = level, []
                for start in range(0, len(below), _MOST_SOURCES):
                    made.append(f"{scratch.rstrip('/')}/compose-{attempt}-{len(made):05d}")
                    self._compose_once(made[-1], below[start : start + _MOST_SOURCES])
                    level.append(made[-1])
            return self._compose_once(name, level)
        finally:
            # No permission to delete: they lie below _parts/, whose sweep reports it once.
            with contextlib.suppress(UsageError):
                for intermediate in made:
                    self.delete(intermediate)

    def delete(self, name: str, version: int | None = None) -> None:
        bucket = None if version is not None else self.bucket_for_obstore(name)

        def action() -> None:
            # The last: it is somebody's newer object.
            with contextlib.suppress(FileNotFoundError, NotFound, PreconditionFailed):
                if bucket is not None:  # a fifth of the CPU, and sweeps delete every part
                    obstore.delete(bucket, self.prefix + name)
                else:
                    self.blob(name).delete(if_generation_match=version, timeout=TIMEOUT, retry=None)

        self.call("delete", name, action)

    def _compose_once(self, name: str, sources: Sequence[str]) -> bool:
        def compose() -> None:
            blob = self.blob(name)
            blob.content_type = _TYPE
            try:
                blob.compose(
                    [self.blob(source) for source in sources], if_generation_match=0, timeout=TIMEOUT, retry=None
                )
            except NotFound as error:
                raise NotFoundError(
                    f"gs://{self.bucket}/{clip(self.prefix + name)} cannot be composed: one of its {len(sources)} parts, "
                    f"{clip(self.prefix + sources[0])} to {clip(self.prefix + sources[-1])}, is not there. "
                    "Run the same command again."
                ) from error

        return self._unless_exists(name, compose)

    def _unless_exists(self, name: str, action: Callable[[], None]) -> bool:
        """False if the name is there, perhaps by our own attempt whose answer was lost."""

        def guarded() -> bool:
            try:
                action()
            except PreconditionFailed:
                return False
            return True

        return self.call("create", name, guarded)
