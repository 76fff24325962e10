"""Addresses of folders: a local path, or ``gs://bucket/folder``."""

from __future__ import annotations

import re

from shardfeed.errors import UsageError, clip

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_remote(url: str) -> bool:
    """True for an address with a scheme (``gs://...``), False for a local path."""
    return _SCHEME.match(url) is not None


def normal_url(url: str) -> str:
    """A remote address with its scheme in lower case and no slash at its end."""
    scheme, _, place = url.partition("://")
    return f"{scheme.lower()}://{place.rstrip('/')}"


def join_url(url: str, name: str) -> str:
    """Address of ``name`` below ``url``."""
    return f"{url.rstrip('/')}/{name}"


def split_gs_url(url: str) -> tuple[str, str]:
    """(bucket, prefix). The prefix is empty or ends in ``/``.

    Not urllib: ``#`` and ``?`` are letters like any other here.

    Raises:
        UsageError: no bucket, or a name that Google's client refuses with a ValueError.
    """
    bucket, _, prefix = url.partition("://")[2].partition("/")
    if not bucket:
        raise UsageError(f"{clip(url)} names no bucket; write gs://BUCKET or gs://BUCKET/FOLDER.")
    if not (bucket[0].isalnum() and bucket[-1].isalnum()):
        raise UsageError(
            f"{clip(url)}: {clip(bucket)} cannot be a bucket; a name begins and ends with a letter or a digit. "
            "List yours: gcloud storage ls"
        )
    prefix = prefix.rstrip("/")
    return bucket, prefix + "/" if prefix else ""


def check_address(url: str, use: str) -> None:
    """Raises UsageError if ``url`` is no address for this ``use`` ("input", "output").

    Opens nothing.
    """
    if "\0" in url:
        raise UsageError(f"{use} {clip(url)}: no name holds a zero byte. Correct the path.")
    scheme = _SCHEME.match(url)
    if scheme is None:
        return
    if scheme[1].lower() == "gs":
        split_gs_url(url)
        return
    remedy = (
        f"Write the path without {scheme[1]}://."
        if scheme[1].lower() == "file"
        else "Copy the data to one of these first."
    )
    raise UsageError(
        f"{use} {clip(url)}: {scheme[1]}:// is not supported; allowed: a local path or gs://bucket/folder. {remedy}"
    )
