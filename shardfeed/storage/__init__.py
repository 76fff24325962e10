"""Where are a dataset's bytes, and how are they read?

A local folder, or one on ``gs://``, ``s3://``, ``az://`` or ``https://``, behind one interface.

obstore's and Google's clients are imported when the first remote address is opened, so that
``import shardfeed`` and local datasets pay nothing for them. Nothing in here writes.

Callers use ``storage.open_store(...)`` through the module, so that a test can put another store in
its place.
"""

from __future__ import annotations

from shardfeed.storage.address import check_address, is_path, is_remote, is_unlistable, join_url, normal_url, split_url
from shardfeed.storage.base import NotFoundError, Stat, StorageError, Store, UnreadableError

__all__ = [
    "NotFoundError",
    "Stat",
    "StorageError",
    "Store",
    "UnreadableError",
    "check_address",
    "is_remote",
    "is_unlistable",
    "join_url",
    "normal_url",
    "open_store",
]


def open_store(url: str) -> Store:
    """The dataset's folder at ``url``: a local folder, or a remote one as ``check_address`` allows.

    Raises:
        UsageError: another scheme, or no bucket in the address.
    """
    check_address(url, "dataset")
    if not is_remote(url):
        from shardfeed.storage.local import LocalStore

        return LocalStore(url)
    if is_path(split_url(url)[2].rstrip("/") or "any"):
        from shardfeed.storage.object_store import ObjectStore

        return ObjectStore(url)
    from shardfeed.storage.gcs import GcsStore

    return GcsStore(url)
