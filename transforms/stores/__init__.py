"""How is an output written so that nothing in it is ever half written?"""

from __future__ import annotations

from shardfeed import storage
from shardfeed.transforms.stores.base import WritableStore


def open_output(url: str) -> WritableStore:
    """The output at ``url``: a local folder (made on the first write) or ``gs://bucket/prefix``.

    Callers use it through this module, so that a test can put another store in its place.

    Raises:
        UsageError: another scheme, or no bucket in the address.
    """
    storage.check_address(url, "output")
    if storage.is_remote(url):
        from shardfeed.transforms.stores.gcs import WritableGcsStore

        return WritableGcsStore(url)
    from shardfeed.transforms.stores.local import WritableLocalStore

    return WritableLocalStore(url)
