"""Where images come from and where a dataset goes: a local folder or a ``gs://`` prefix, behind two small interfaces.

The one decision: a store knows complete bytes and create-only names, nothing else. No rename, no append, no half-written
object can be seen, so every step of a build can be repeated, by anybody, at any time. Google's and obstore's clients are
imported when the first ``gs://`` address is opened, so that a local build and ``import shardfeed`` pay nothing for them.

Callers use ``storage.open_store(...)`` through the module, which lets a test put another store in its place.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from shardfeed.errors import ConflictError, UsageError, clip
from shardfeed.format.checksums import to_hex
from shardfeed.storage.base import (
    ChangedError,
    ChecksumError,
    Listed,
    NotFoundError,
    Source,
    Stat,
    StorageError,
    Store,
    UnreadableError,
)
from shardfeed.storage.local import LocalSource, LocalStore

__all__ = [
    "ChangedError",
    "ChecksumError",
    "Listed",
    "NotFoundError",
    "Source",
    "Stat",
    "StorageError",
    "Store",
    "UnreadableError",
    "check_address",
    "is_remote",
    "join_url",
    "normal_url",
    "open_source",
    "open_store",
    "publish",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_RACES = 3  # a name that exists, then does not, this many times in a row is not a race any more


def is_remote(url: str) -> bool:
    """True for an address with a scheme (``gs://…``), False for a local path."""
    return _SCHEME.match(url) is not None


def normal_url(url: str) -> str:
    """A remote address with its scheme in small letters and no slash at its end: equal places have equal addresses.

    Raises:
        UsageError: no bucket in the address.
    """
    scheme, _, place = url.partition("://")
    if scheme.lower() == "gs" and not place.split("/", 1)[0]:
        raise UsageError(f"{clip(url)} names no bucket; write gs://BUCKET or gs://BUCKET/FOLDER.")
    return f"{scheme.lower()}://{place.rstrip('/')}"


def join_url(url: str, name: str) -> str:
    """Address of ``name`` below ``url``."""
    return f"{url.rstrip('/')}/{name}"


def check_address(url: str, use: str) -> None:
    """Raises UsageError for an ``input`` or ``output`` (``use``) of another kind, without opening anything."""
    _is_gcs(url, use)


def open_source(url: str) -> Source:
    """The input root at ``url``: a local folder or ``gs://bucket/prefix``.

    Raises:
        UsageError: another scheme, or no bucket in the address.
    """
    if _is_gcs(url, "input"):
        from shardfeed.storage.gcs import GcsSource

        return GcsSource(url)
    return LocalSource(url)


def open_store(url: str) -> Store:
    """The output folder at ``url``: a local folder (made on the first write) or ``gs://bucket/prefix``.

    Raises:
        UsageError: another scheme, or no bucket in the address.
    """
    if _is_gcs(url, "dataset"):
        from shardfeed.storage.gcs import GcsStore

        return GcsStore(url)
    return LocalStore(url)


def publish(store: Store, name: str, data: bytes | BinaryIO, *, crc32c: int, size: int, durable: bool = False) -> None:
    """Create ``name``, or make sure that it already holds exactly these bytes (our own earlier attempt).

    ``crc32c`` and ``size`` are those of ``data``, which may be a seekable binary file.

    Raises:
        ConflictError: the name holds other bytes.
    """
    start = 0 if isinstance(data, bytes) else data.tell()
    for _ in range(_RACES):
        if not isinstance(data, bytes):
            data.seek(start)
        if store.create(name, data, durable=durable):
            return
        try:
            found_size, found_crc = store.checksum(name)
        except NotFoundError:  # removed between the two calls, by a sweep of the same build
            continue
        if (found_size, found_crc) == (size, crc32c):
            return
        raise ConflictError(
            f"{join_url(store.url, name)} already holds other content: {found_size:,} bytes, crc32c {to_hex(found_crc)}; "
            f"this build made {size:,} bytes, crc32c {to_hex(crc32c)}. Published files are never overwritten. "
            "Choose another --output, or remove what an unfinished build left there with --discard_incomplete."
        )
    raise StorageError(
        f"{join_url(store.url, name)} appears and disappears while it is written. "
        "Another process is deleting files in this output: stop it, then run the same command again."
    )


def _is_gcs(url: str, role: str) -> bool:
    if "\0" in url:
        raise UsageError(f"{role} {clip(url)}: no name holds a zero byte. Correct the path.")
    scheme = _SCHEME.match(url)
    if scheme is None:
        return False
    if scheme[1].lower() == "gs":
        return True
    remedy = (
        f"Write the path without {scheme[1]}://."
        if scheme[1].lower() == "file"
        else "Copy the data to one of these first."
    )
    raise UsageError(
        f"{role} {clip(url)}: {scheme[1]}:// is not supported; allowed: a local path or gs://bucket/folder. {remedy}"
    )
