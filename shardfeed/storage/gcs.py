"""Objects below ``gs://bucket/prefix`` as the job needs them: versions, checksums, any name.

Names are opaque: GCS has no folders, and ``a//b``, ``a/../b`` or ``a/`` are objects like any other.
obstore treats names as paths: it refuses some and strips slashes from others, which reads a
*different object*. Those names go through Google's client. So does a dataset in such a folder.

Bytes are those that are stored, also of objects with ``Content-Encoding: gzip``: their size and
checksum in a listing are those of the stored bytes. Google sends large ones without a length, which
obstore refuses; they go through Google's client too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import obstore
from google.cloud.storage import Blob

from shardfeed.storage import gcs_errors
from shardfeed.storage.address import is_path
from shardfeed.storage.base import Stat
from shardfeed.storage.gcs_clients import google_client
from shardfeed.storage.object_clients import TIMEOUT, object_client
from shardfeed.storage.object_errors import ObjectAction, failures, lacks_header
from shardfeed.storage.object_store import ObjectStore
from shardfeed.storage.retry import call_with_retries

if TYPE_CHECKING:
    from obstore import Bytes, GetOptions
    from obstore.store import ObjectStore as Client

_FIELDS = "items(name,size,generation,crc32c),prefixes,nextPageToken"  # a fifth of the full answer's bytes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One page of a listing: objects and, with a delimiter, first-level "folders"."""

    objects: list[tuple[str, Stat]]
    folders: list[str]


class GcsStore(ObjectStore):
    """A bucket prefix."""

    def read(self, name: str) -> bytes:
        # Google's client compares the bytes with the checksum in the answer.
        return self.call("get", name, lambda: _download(self.blob(name), checksum="auto"))

    def read_unchecked(self, name: str, generation: int | None = None) -> bytes:
        """All bytes of the live object, or of one generation, for a tenth of the CPU of ``read``.

        Raises:
            NotFoundError: no such object, or no such generation of it.
        """
        options: GetOptions = {} if generation is None else {"version": str(generation)}
        return self._fetch(
            name,
            lambda bucket, path: obstore.get(bucket, path, options=options).bytes(),
            lambda: _download(self.blob(name, generation)),
        )

    def read_range(self, name: str, offset: int, size: int, generation: int | None = None) -> bytes:
        if not size:
            return b""
        options: GetOptions = {"range": (offset, offset + size)}
        if generation is not None:
            options["version"] = str(generation)
        return self._fetch(
            name,
            lambda bucket, path: obstore.get(bucket, path, options=options).bytes(),
            lambda: _download(self.blob(name, generation), start=offset, end=offset + size - 1),
        )

    def read_range_with_stat(self, name: str, offset: int, size: int) -> tuple[bytes, Stat | None]:
        return self.read_range(name, offset, size), None

    def stat(self, name: str) -> Stat | None:
        def action() -> Stat | None:
            blob = google_client().bucket(self.bucket).get_blob(self.prefix + name, timeout=TIMEOUT, retry=None)
            return None if blob is None else _stat(blob)

        return self.call("get", name, action)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        for page in self.pages(prefix):
            yield from (found for found in page.objects if found[0])  # a console makes an object of the folder's name

    def pages(
        self, prefix: str = "", *, delimiter: str | None = None, most: int | None = None
    ) -> Iterator[ListingPage]:
        """Objects whose names start with ``prefix``, up to 1,000 (or ``most``) per page."""
        token = None

        def action() -> tuple[ListingPage, str | None]:
            iterator = google_client().list_blobs(
                self.bucket,
                prefix=self.prefix + prefix,
                delimiter=delimiter,
                page_token=token,
                page_size=most,
                fields=_FIELDS,
                timeout=TIMEOUT,
                retry=None,
            )
            objects = [(self._below(blob.name), _stat(blob)) for blob in next(iterator.pages, ())]
            return ListingPage(objects, sorted(map(self._below, iterator.prefixes))), iterator.next_page_token

        while True:
            page, token = self.call("list", prefix, action)
            yield page
            if not token:
                return

    def blob(self, name: str, generation: int | None = None) -> Blob:
        """Google's handle of an object; no request."""
        return google_client().bucket(self.bucket).blob(self.prefix + name, generation=generation)

    def bucket_for_obstore(self, name: str) -> Client | None:
        """Obstore's client if it takes exactly this name; None if Google's client has to."""
        return object_client("gs", self.bucket) if is_path(self.prefix + name) else None

    def call(self, action_name: ObjectAction, name: str, action: Callable[[], T]) -> T:
        try:
            return call_with_retries(action, gcs_errors.is_transient)
        except (*gcs_errors.FAILURES, *failures()) as error:
            if action_name == "get" and gcs_errors.status_of(error) == 404:
                raise self.not_found(name) from error
            raise gcs_errors.users_error(error, action_name, self.bucket, self.prefix + name) from error

    def _fetch(self, name: str, by_obstore: Callable[[Client, str], Bytes], by_google: Callable[[], bytes]) -> bytes:
        bucket = self.bucket_for_obstore(name)

        def action() -> bytes:
            try:
                if bucket is not None:
                    try:
                        return bytes(by_obstore(bucket, self.prefix + name))
                    except obstore.exceptions.BaseError as error:
                        if not lacks_header(error):
                            raise
                return by_google()
            except (*gcs_errors.FAILURES, *failures()) as error:
                if gcs_errors.status_of(error) == 416:  # a range behind the last byte
                    return b""
                raise

        return self.call("get", name, action)

    def _below(self, name: str) -> str:
        return name[len(self.prefix) :]


def _download(blob: Blob, start: int | None = None, end: int | None = None, checksum: str | None = None) -> bytes:
    # Raw: the stored bytes, also of an object of Content-Encoding gzip.
    data = blob.download_as_bytes(
        start=start, end=end, checksum=checksum, timeout=TIMEOUT, retry=None, raw_download=True
    )
    return bytes(data)


def _stat(blob: Blob) -> Stat:
    crc32c = int.from_bytes(base64.b64decode(blob.crc32c), "big") if blob.crc32c else None
    return Stat(int(blob.size), int(blob.generation), crc32c)
