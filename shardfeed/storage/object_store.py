"""A folder on gs://, s3://, az:// or https://, read through obstore.

Each request is retried, and its error translated. A cloud's listing is read page by page; a web
server has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import obstore

from shardfeed.errors import clip
from shardfeed.format.checksums import crc32c
from shardfeed.storage import object_errors
from shardfeed.storage.address import split_url
from shardfeed.storage.base import NotFoundError, Stat, Store
from shardfeed.storage.object_clients import object_client
from shardfeed.storage.object_errors import ObjectAction
from shardfeed.storage.retry import call_with_retries

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore as Client

_PAGE = 1000  # names, as many as the clouds give at a time

T = TypeVar("T")


class ObjectStore(Store):
    """A folder. Cheap to make; the clients belong to the process."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.scheme, self.bucket, self.prefix = split_url(url)

    def read(self, name: str) -> bytes:
        return self._ask(name, lambda client, path: bytes(obstore.get(client, path).bytes()))

    def read_with_stat(self, name: str) -> tuple[bytes, Stat]:
        """The whole content and the stat of just this version. Raises NotFoundError."""

        def read(client: Client, path: str) -> tuple[bytes, Stat]:
            found = obstore.get(client, path)
            data, stat = bytes(found.bytes()), _stat(found.meta)
            if len(data) != stat.size:
                raise ConnectionError(f"{stat.size} bytes were promised, {len(data)} came")
            return data, stat

        return self._ask(name, read)

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        return self.read_range_with_stat(name, offset, size)[0] if size else b""

    def read_range_with_stat(self, name: str, offset: int, size: int) -> tuple[bytes, Stat | None]:
        def read(client: Client, path: str) -> tuple[bytes, Stat | None]:
            try:
                found = obstore.get(client, path, options={"range": (offset, offset + size)})
                data = bytes(found.bytes())
            except object_errors.failures() as error:
                if object_errors.is_behind_the_end(error):
                    return b"", None
                raise
            start, end = found.range
            if (start, len(data)) != (offset, end - start):  # obstore compares neither
                raise ConnectionError(f"bytes {offset} to {end} were promised, {len(data)} bytes from {start} on came")
            return data, _stat(found.meta)

        return self._ask(name, read)

    def stat(self, name: str) -> Stat | None:
        try:
            return self._ask(name, lambda client, path: _stat(obstore.head(client, path)))
        except NotFoundError:
            return None

    def first_names(self) -> list[str]:
        """At most 1,000 names, in no particular order; one request."""

        def list_some() -> list[str]:
            client = object_client(self.scheme, self.bucket)
            pages = obstore.list(client, self.prefix.rstrip("/") or None, chunk_size=_PAGE)
            return [found["path"][len(self.prefix) :] for found in next(iter(pages), ())]

        return self.call("list", "", list_some)

    def top(self) -> tuple[list[str], list[tuple[str, Stat]]]:
        """The first-level folders, each with a slash at its end, and the objects beside them.

        Raises:
            UsageError, StorageError: the store cannot be listed.
        """

        def list_top() -> tuple[list[str], list[tuple[str, Stat]]]:
            client = object_client(self.scheme, self.bucket)
            found = obstore.list_with_delimiter(client, self.prefix.rstrip("/") or None)
            start = len(self.prefix)
            objects = [(each["path"][start:], _stat(each)) for each in found["objects"]]
            return sorted(f"{path[start:]}/" for path in found["common_prefixes"]), objects

        return self.call("list", "", list_top)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        # obstore's prefixes are folders. It goes on behind the last name after a failure.
        folder = self.prefix + prefix.rpartition("/")[0]
        pages: Iterator[Sequence[ObjectMeta]] | None = None
        last: str | None = None

        def next_page() -> Sequence[ObjectMeta]:
            nonlocal pages
            try:
                if pages is None:
                    client = object_client(self.scheme, self.bucket)
                    pages = iter(obstore.list(client, folder or None, offset=last, chunk_size=_PAGE))
                return next(pages, ())
            except object_errors.failures():
                pages = None
                raise

        while page := self.call("list", prefix, next_page):
            last = page[-1]["path"]
            for found in page:
                if found["path"].startswith(self.prefix + prefix):  # a console makes an object of the folder's name
                    yield found["path"][len(self.prefix) :], _stat(found)

    def call(self, action_name: ObjectAction, name: str, action: Callable[[], T]) -> T:
        """The result of a request, which is retried.

        Raises:
            NotFoundError: ``name`` was to be read and is not there.
            UsageError, StorageError: what the failure means to the user.
        """
        try:
            return call_with_retries(action, object_errors.is_transient)
        except object_errors.failures() as error:
            if action_name == "get" and object_errors.status_of(error) == 404:
                raise self.not_found(name) from error
            raise object_errors.users_error(error, action_name, self.scheme, self.bucket, self.prefix + name) from error

    def not_found(self, name: str) -> NotFoundError:
        """The error for a ``name`` that was to be read and is not there."""
        root = self.bucket if self.scheme.startswith("http") else f"{self.scheme}://{self.bucket}"
        return NotFoundError(f"{root}/{clip(self.prefix + name)} is not there.")

    def _ask(self, name: str, action: Callable[[Client, str], T]) -> T:
        # The client first: in a forked process it brings another ``obstore``.
        return self.call("get", name, lambda: action(object_client(self.scheme, self.bucket), self.prefix + name))


def _stat(found: ObjectMeta) -> Stat:
    tag = found["e_tag"] or str(found["last_modified"])
    return Stat(found["size"], crc32c(tag.strip('"').encode()))
