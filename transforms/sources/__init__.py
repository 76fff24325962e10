"""Where do images come from?

A local folder or a prefix on ``gs://``, ``s3://`` or ``az://``, listed and read in the version that was listed.
"""

from __future__ import annotations

from shardfeed import storage
from shardfeed.transforms.sources.base import Source


def open_source(url: str) -> Source:
    """The input root at ``url``: a local folder, or ``SCHEME://bucket/prefix`` with gs, s3 or az.

    Raises:
        UsageError: another scheme, or no bucket in the address.
    """
    storage.check_address(url, "input")
    if storage.is_remote(url):
        if not url.lower().startswith("gs://"):
            from shardfeed.transforms.sources.object_store import ObjectSource

            return ObjectSource(url)
        from shardfeed.transforms.sources.gcs import GcsSource

        return GcsSource(url)
    from shardfeed.transforms.sources.local import LocalSource

    return LocalSource(url)
