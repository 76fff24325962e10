"""Addresses of folders: a local path, ``gs://bucket/folder``, and others to read from."""

from __future__ import annotations

import re

from shardfeed.errors import UsageError, clip

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_READ_ONLY = {"s3": "bucket", "az": "container", "https": "host", "http": "host"}  # and what stands behind ://
_LISTED = ("s3", "az")  # a web server lists nothing, so it cannot be an input
# What obstore takes for a path and changes: segments "", "." and ".."; control characters.
_NO_PATH = re.compile(r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f]")


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


def split_url(url: str) -> tuple[str, str, str]:
    """(scheme, bucket, prefix) of any remote address. The prefix is empty or ends in ``/``.

    On https:// the bucket is the whole address: its path is written as a URL, with ``%20``.

    Raises:
        UsageError: no bucket, or an address whose names obstore or a web server takes for others.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme == "gs":
        return scheme, *split_gs_url(url)
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    if not bucket:
        what = _READ_ONLY[scheme]
        raise UsageError(f"{clip(url)} names no {what}; write {scheme}://{what.upper()}/FOLDER.")
    if prefix and not is_path(prefix):
        raise UsageError(
            f"{clip(url)}: {scheme}:// is read by paths, which hold no empty part, no . or .. and no control "
            "character. Correct the address, or copy the dataset to another folder."
        )
    if scheme.startswith("http"):
        if "?" in rest or "#" in rest:
            raise UsageError(
                f"{clip(url)}: files are looked for below this address, so it cannot end in a query (?) or a fragment "
                "(#). Give the folder's own address; write %3F or %23 for these letters in a name."
            )
        return scheme, url.rstrip("/"), ""
    return scheme, bucket, prefix + "/" if prefix else ""


def is_path(name: str) -> bool:
    """True if obstore reads exactly this name; it changes others to what it takes for a path."""
    return _NO_PATH.search(name) is None


def is_unlistable(url: str) -> bool:
    """True for https://: a web server has no listing that all of them understand."""
    return url.lower().startswith(("https://", "http://"))


def check_address(url: str, use: str) -> None:
    """Raises UsageError if ``url`` is no address for this ``use`` ("input", "output", "dataset").

    A dataset is read from more places than it is built from, and built to fewest. Opens nothing.
    """
    if "\0" in url:
        raise UsageError(f"{use} {clip(url)}: no name holds a zero byte. Correct the path.")
    found = _SCHEME.match(url)
    if found is None:
        return
    scheme = found[1].lower()
    if scheme == "gs" or scheme in {"dataset": tuple(_READ_ONLY), "input": _LISTED}.get(use, ()):
        split_url(url)
        return
    remedy = "Copy the data to one of these first." if use in ("dataset", "input") else "Give one of these."
    if scheme == "file":
        remedy = f"Write the path without {found[1]}://."
    allowed = " or gs://bucket/folder"
    if use == "input":
        allowed = ", gs://bucket/folder, s3://bucket/folder or az://container/folder"
    if use == "dataset":
        allowed = ", gs://bucket/folder, s3://bucket/folder, az://container/folder or https://host/folder"
    raise UsageError(f"{use} {clip(url)}: {found[1]}:// is not supported; allowed: a local path{allowed}. {remedy}")
