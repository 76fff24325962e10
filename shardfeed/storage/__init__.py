"""Where are a dataset's bytes, and how are they read?

A local folder or a ``gs://`` prefix behind one interface.

Google's and obstore's clients are imported when the first ``gs://`` address is opened, so that
``import shardfeed`` and local datasets pay nothing for them. Nothing in here writes.

Callers use ``storage.open_store(...)`` through the module, so that a test can put another store in
its place.
"""

from __future__ import annotations

from shardfeed.storage.address import check_address, is_remote, join_url, normal_url
from shardfeed.storage.base import NotFoundError, Stat, StorageError, Store, UnreadableError

__all__ = [
    "NotFoundError",
    "Stat",
    "StorageError",
    "Store",
    "UnreadableError",
    "check_address",
    "is_remote",
    "join_url",
    "normal_url",
    "open_store",
]


def open_store(url: str) -> Store:
    """The dataset's folder at ``url``: a local folder or ``gs://bucket/prefix``.

    Raises:
        UsageError: another scheme, or no bucket in the address.
    """
    check_address(url, "dataset")
    if is_remote(url):
        from shardfeed.storage.gcs import GcsStore

        return GcsStore(url)
    from shardfeed.storage.local import LocalStore

    return LocalStore(url)
