"""Where do images come from?

A local folder or a prefix on ``gs://``, ``s3://`` or ``az://``, or a zip or a tar there, listed and
read in the version that was listed.
"""

from __future__ import annotations

import os

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.transforms.sources.archive import archive_suffix
from shardfeed.transforms.sources.base import FileSource, Source


def open_source(url: str) -> Source:
    """The input root at ``url``: a folder, ``SCHEME://bucket/prefix`` (gs, s3, az) or an archive.

    Raises:
        UsageError: another scheme, no bucket in the address, or a packed tar.
    """
    if not (suffix := suffix_of(url)):
        return open_files(url)
    folder = open_files(url.rpartition("/")[0] or "/")
    if suffix == "zip":
        from shardfeed.transforms.sources.zip_archive import ZipSource

        return ZipSource(url, folder)
    if suffix == "tar":
        from shardfeed.transforms.sources.tar_archive import TarSource

        return TarSource(url, folder)
    raise UsageError(
        f"--input {clip(url)}: a packed tar can only be read from its beginning, but a build reads its images in another order "
        "and side by side. Unpack it once to a plain .tar or a folder (gunzip FILE, or tar -xf FILE); images hardly shrink "
        "by packing."
    )


def suffix_of(url: str) -> str:
    """``zip`` or another ending that makes the root at ``url`` an archive; empty for a folder."""
    suffix = archive_suffix(url)
    return suffix if suffix and (storage.is_remote(url) or not os.path.isdir(url)) else ""


def open_files(url: str) -> FileSource:
    """A folder: a local one, or ``SCHEME://bucket/prefix`` with gs, s3 or az.

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
