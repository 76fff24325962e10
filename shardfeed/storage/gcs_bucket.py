"""One bucket: the dozen requests that we make, each retried, pinned and with its error translated.

Names are opaque: GCS has no folders, and ``a//b``, ``a/../b`` or ``a/`` are objects like any other. obstore treats names as
paths: it refuses some and strips slashes from others, which reads a *different object*. Those go through Google's client.

Bytes are those that are stored, also of objects with ``Content-Encoding: gzip``: size and checksum in a listing are theirs.
Google sends large ones without a length, which obstore refuses; they go through Google's client too.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import obstore
from google.api_core.exceptions import NotFound, PreconditionFailed, RequestRangeNotSatisfiable
from google.cloud.storage import Blob

from shardfeed.errors import UsageError, clip
from shardfeed.storage.base import ChangedError, NotFoundError, Stat
from shardfeed.storage.gcs_clients import CONNECT_TIMEOUT, READ_TIMEOUT, google_client, obstore_bucket
from shardfeed.storage.gcs_errors import FAILURES, Action, is_transient, lacks_header, status_of, translated
from shardfeed.storage.retry import call_with_retries

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import GCSStore as ObstoreBucket

MAX_COMPOSE = 32  # sources a call; Google's limit

_FIELDS = "items(name,size,generation,crc32c),prefixes,nextPageToken"  # a fifth of the full answer's bytes
_CHUNK = 32 << 20  # bytes of an upload held in memory; a multiple of 256 KiB, as Google asks
_TYPE = "application/octet-stream"
_TIMEOUT = (CONNECT_TIMEOUT, READ_TIMEOUT)
_NOT_FOR_OBSTORE = re.compile(r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f]")  # segments "", ".", ".."; control characters

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing: objects, first-level «folders» where a delimiter was asked for, and where to go on."""

    objects: list[tuple[str, Stat]]
    prefixes: list[str]
    next_token: str | None


def parse_url(url: str) -> tuple[str, str]:
    """(bucket, prefix ending in ``/`` or empty). Not urllib: ``#`` and ``?`` are letters like any other here.

    Raises:
        UsageError: no bucket, or a name that Google's client refuses with a ValueError.
    """
    bucket, _, prefix = url[len("gs://") :].partition("/")
    if not bucket:
        raise UsageError(f"{clip(url)} names no bucket; write gs://BUCKET or gs://BUCKET/FOLDER.")
    if not (bucket[0].isalnum() and bucket[-1].isalnum()):
        raise UsageError(
            f"{clip(url)}: {clip(bucket)} cannot be a bucket; a name begins and ends with a letter or a digit. "
            "List yours: gcloud storage ls"
        )
    prefix = prefix.rstrip("/")
    return bucket, prefix + "/" if prefix else ""


def obstore_for(bucket: str, name: str) -> ObstoreBucket | None:
    """Obstore's client where it takes exactly this name; None where Google's has to."""
    return None if _NOT_FOR_OBSTORE.search(name) else obstore_bucket(bucket)


class Bucket:
    """Requests to one bucket. Cheap to make; the clients are the process's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def page(self, prefix: str, token: str | None, delimiter: str | None = None, most: int | None = None) -> Page:
        """Objects whose names start with ``prefix``, up to 1,000 (or ``most``)."""

        def action() -> Page:
            iterator = google_client().list_blobs(
                self.name,
                prefix=prefix,
                delimiter=delimiter,
                page_token=token,
                page_size=most,
                fields=_FIELDS,
                timeout=_TIMEOUT,
                retry=None,
            )
            objects = [(str(blob.name), _stat(blob)) for blob in next(iterator.pages, ())]
            return Page(objects, sorted(iterator.prefixes), iterator.next_page_token)

        return self._call("list", prefix, action)

    def read_version(self, name: str, generation: int) -> bytes:
        """All bytes of one generation, unchecked. Raises ChangedError when it is not there any more."""
        try:
            return self._read_unchecked(name, generation)
        except NotFoundError as error:
            raise ChangedError(f"gs://{self.name}/{clip(name)} is gone or overwritten since the listing") from error

    def read_unchecked(self, name: str) -> bytes:
        """All bytes of the live object, for a tenth of the CPU of ``read``."""
        return self._read_unchecked(name, None)

    def read(self, name: str) -> bytes:
        """All bytes of the live object; the client compares them with the checksum in the answer."""
        return self._existing(name, lambda: _download(self._blob(name), checksum="auto"))

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``."""

        def action() -> bytes:
            try:
                return _download(self._blob(name), start=offset, end=offset + size - 1)
            except RequestRangeNotSatisfiable:  # begins behind the last byte
                return b""

        return self._existing(name, action) if size else b""

    def stat(self, name: str) -> Stat | None:
        """Size, generation and crc32c; None when the name is not there."""

        def action() -> Stat | None:
            blob = google_client().bucket(self.name).get_blob(name, timeout=_TIMEOUT, retry=None)
            return None if blob is None else _stat(blob)

        return self._call("get", name, action)

    def create(self, name: str, data: BinaryIO) -> bool:
        """Create-only upload of what is left in ``data``. False: the name is there, perhaps by our own lost attempt."""
        start = data.tell()
        size = data.seek(0, os.SEEK_END) - start

        def action() -> bool:
            data.seek(start)
            blob = self._blob(name)
            blob.chunk_size = _CHUNK
            blob.upload_from_file(
                data,
                size=size,
                content_type=_TYPE,
                if_generation_match=0,
                timeout=_TIMEOUT,
                checksum="auto",
                retry=None,
            )
            return True

        return self._unless_exists("create", name, action)

    def compose(self, name: str, sources: Sequence[str]) -> bool:
        """Create-only concatenation of at most ``MAX_COMPOSE`` objects. False: the name is there."""

        def action() -> bool:
            blob = self._blob(name)
            blob.content_type = _TYPE
            blobs = [self._blob(source) for source in sources]
            try:
                blob.compose(blobs, if_generation_match=0, timeout=_TIMEOUT, retry=None)
            except NotFound as error:
                raise NotFoundError(
                    f"gs://{self.name}/{clip(name)} cannot be composed: one of its {len(sources)} parts, "
                    f"{clip(sources[0])} to {clip(sources[-1])}, is not there. Run the same command again."
                ) from error
            return True

        return self._unless_exists("create", name, action)

    def delete(self, name: str, generation: int | None) -> None:
        """Remove an object, or only that generation of it. Missing is fine."""
        bucket = None if generation is not None else obstore_for(self.name, name)

        def action() -> None:
            if bucket is not None:  # a fifth of the CPU, and sweeps delete every part
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(bucket, name)
                return
            try:
                self._blob(name).delete(if_generation_match=generation, timeout=_TIMEOUT, retry=None)
            except (NotFound, PreconditionFailed):  # gone, or somebody's newer object
                return

        self._call("delete", name, action)

    def _read_unchecked(self, name: str, generation: int | None) -> bytes:
        bucket = obstore_for(self.name, name)
        options: GetOptions = {} if generation is None else {"version": str(generation)}

        def action() -> bytes:
            if bucket is not None:
                try:
                    return bytes(obstore.get(bucket, name, options=options).bytes())
                except obstore.exceptions.BaseError as error:
                    if not lacks_header(error):
                        raise
            return _download(self._blob(name, generation))

        try:
            return call_with_retries(action, is_transient)
        except FAILURES as error:
            if status_of(error) == 404:
                raise NotFoundError(f"gs://{self.name}/{clip(name)} is not there.") from error
            raise translated(error, "get", self.name, name) from error

    def _blob(self, name: str, generation: int | None = None) -> Blob:
        return google_client().bucket(self.name).blob(name, generation=generation)

    def _unless_exists(self, action_name: Action, name: str, action: Callable[[], bool]) -> bool:
        def guarded() -> bool:
            try:
                return action()
            except PreconditionFailed:
                return False

        return self._call(action_name, name, guarded)

    def _existing(self, name: str, action: Callable[[], bytes]) -> bytes:
        def guarded() -> bytes:
            try:
                return action()
            except NotFound as error:
                raise NotFoundError(f"gs://{self.name}/{clip(name)} is not there.") from error

        return self._call("get", name, guarded)

    def _call(self, action_name: Action, name: str, action: Callable[[], T]) -> T:
        try:
            return call_with_retries(action, is_transient)
        except FAILURES as error:
            raise translated(error, action_name, self.name, name) from error


def _download(blob: Blob, start: int | None = None, end: int | None = None, checksum: str | None = None) -> bytes:
    # Raw: the stored bytes, also of an object of Content-Encoding gzip, whose size and checksum are those of its stored bytes.
    data = blob.download_as_bytes(
        start=start, end=end, checksum=checksum, timeout=_TIMEOUT, retry=None, raw_download=True
    )
    return bytes(data)


def _stat(blob: Blob) -> Stat:
    crc32c = int.from_bytes(base64.b64decode(blob.crc32c), "big") if blob.crc32c else None
    return Stat(int(blob.size), int(blob.generation), crc32c)
