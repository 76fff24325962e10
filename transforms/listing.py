"""Which listed files are candidates, and how ``--input`` names roots.

A file is skipped by a closed rule on names alone (hidden, another suffix, a well-known document without a suffix, a folder
marker) or because it is not a plain file of the tree; everything else is a candidate, and a candidate is written or rejected,
never dropped. Any other name without a suffix is a candidate: many buckets hold such images.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.storage.base import Listed
from transforms.elements import ImageRef, RefBatch, add_counts, pack_ref
from transforms.images.suffixes import IMAGE_SUFFIXES
from transforms.run_state import RUN

BATCH_REFS = 10_000  # about 1 MB packed; per-element cost of the engine is then below 1 % of hashing the keys

_SUFFIXES = frozenset(suffix.encode() for suffix in IMAGE_SUFFIXES)
_DOCUMENTS = frozenset(
    {b"license", b"licence", b"copying", b"notice", b"readme", b"authors", b"changelog", b"makefile", b"dockerfile"}
    | {b"manifest", b"md5sums", b"sha1sums", b"sha256sums", b"checksums", b"_success"}
)
_WILDCARDS = re.compile(r"[*?\[]")
_SET = re.compile(r"\[(!?)(\]?[^\]]*)\]", re.DOTALL)
_SET_OPERATORS = re.compile(r"[\\^\[\]&|~]")  # what means something else inside a set of a regular expression


@dataclass(frozen=True, slots=True)
class InputRoot:
    """A root and the globs (relative to it) of which a file must match one; no globs = everything below it."""

    url: str
    globs: tuple[str, ...] = ()


def parse_inputs(inputs: list[str]) -> tuple[InputRoot, ...]:
    """Roots of ``--input`` values, equal roots joined, sorted.

    Raises:
        UsageError: one root lies inside another, or a value is empty.
    """
    merged: dict[str, set[str] | None] = {}
    for text in inputs:
        root, glob = _split_glob(text)
        globs = merged.setdefault(root, set())
        if glob is None or globs is None:
            merged[root] = None
        else:
            globs.add(glob)
    roots = sorted(merged)
    for inner in roots:
        for outer in roots:
            if inner != outer and inner.startswith(outer.rstrip("/") + "/"):
                raise UsageError(
                    f"--input {clip(inner)} lies inside --input {clip(outer)}: its images would be listed twice with "
                    "different classes. Give only one of them, or build two datasets."
                )
    return tuple(InputRoot(root, tuple(sorted(merged[root] or ()))) for root in roots)


def _split_glob(text: str) -> tuple[str, str | None]:
    """(root, glob or None): the root is the longest prefix of whole folders without a wildcard."""
    if not text:
        raise UsageError(
            "--input is empty. Give a folder (photos/), a bucket (gs://photos) or a glob (photos/*/*.jpg)."
        )
    remote = storage.is_remote(text)
    if not remote:
        text = os.path.expanduser(text)
    if not _WILDCARDS.search(text) or (not remote and os.path.isdir(text)):
        return _normal(text, remote), None
    cut = text.rfind("/", 0, _WILDCARDS.search(text).start())  # type: ignore[union-attr]
    root, glob = text[: cut + 1] if cut >= 0 else ".", text[cut + 1 :]
    if remote and root.endswith("://"):
        raise UsageError(
            f"--input {clip(text)}: a glob cannot choose among buckets. Name the bucket, as in gs://photos/*/*.jpg."
        )
    try:
        glob_regex(glob)
    except re.error as error:
        raise UsageError(
            f"--input {clip(text)}: {clip(glob)!r} is not a glob ({error.msg}). Allowed are * ? ** and sets such as "
            "[abc], [a-z], [!abc]."
        ) from None
    return _normal(root, remote), glob


def _normal(root: str, remote: bool) -> str:
    return storage.normal_url(root) if remote else os.path.realpath(root)


def glob_regex(glob: str) -> re.Pattern[str]:
    """``*`` and ``?`` stay within a folder, ``**`` crosses folders, ``[ab]`` and ``[!ab]`` are sets.

    For whole keys as ``os.fsdecode`` gives them, so that ``?`` is a character and not a byte of one.

    Raises:
        re.error: a set with a range that runs backwards.
    """
    out, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif glob.startswith("**", at):
            out, at = out + ".*", at + 2
        elif glob[at] == "*":
            out, at = out + "[^/]*", at + 1
        elif glob[at] == "?":
            out, at = out + "[^/]", at + 1
        elif match := _SET.match(glob, at):
            negated, members = match.groups()
            members = _SET_OPERATORS.sub(r"\\\g<0>", members)
            out += f"(?!/)[^{members}]" if negated else f"(?!/)[{members}]"
            at = match.end()
        else:
            out, at = out + re.escape(glob[at]), at + 1
    return re.compile(out, re.DOTALL)


def skip_reason(listed: Listed) -> str | None:
    """Why a listed entry is not a candidate; None for a candidate."""
    if listed.kind != "file":
        return listed.kind
    name = listed.key.rsplit(b"/", 1)[-1]
    if listed.key.startswith(b".") or b"/." in listed.key:
        return "hidden"
    stem, dot, suffix = name.rpartition(b".")
    if dot and stem and b"." + suffix.lower() not in _SUFFIXES:
        return "suffix"
    if name.lower() in _DOCUMENTS:
        return "document"
    return None


def list_section(root: InputRoot, index: int, section: bytes) -> Iterator[RefBatch]:
    """Batches of the candidates in one section of a root, the last (always there) with what was skipped."""
    globs = [glob_regex(glob) for glob in root.globs]
    packed: list[bytes] = []
    skipped: dict[str, int] = {}
    for listed in storage.open_source(root.url).list(section):
        if globs and not any(glob.fullmatch(os.fsdecode(listed.key)) for glob in globs):
            continue
        reason = skip_reason(listed)
        if reason is not None:
            skipped = add_counts(skipped, {reason: 1})
            continue
        if len(listed.key) > 0xFFFF:
            raise UsageError(
                f"{clip(listed.key)}: a key of {len(listed.key)} bytes; at most 65,535 are possible. Rename it."
            )
        packed.append(pack_ref(ImageRef(index, listed.key, listed.stat)))
        if len(packed) == BATCH_REFS:
            RUN.check()
            yield RefBatch("", b"".join(packed))
            packed = []
    yield RefBatch("", b"".join(packed), skipped)


def list_all(roots: tuple[InputRoot, ...]) -> Iterator[RefBatch]:
    """The whole listing, one section after another: what the launcher uses to see whether an input changed."""
    for index, root in enumerate(roots):
        for section in storage.open_source(root.url).sections():
            yield from list_section(root, index, section)
