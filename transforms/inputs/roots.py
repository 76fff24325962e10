"""How ``--input`` names roots: folders, buckets, globs, archives and lists.

A glob's root is its longest prefix of whole folders without a wildcard, because the class is the
first folder below the root. The name of a folder may hold a wildcard: if a folder of exactly this
name exists, it is taken as it is, and ``[[]``, ``[*]``, ``[?]`` are plain characters. A glob of
another kind is an error, never a literal name.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.transforms.sources import suffix_of
from shardfeed.transforms.sources.archive import archive_suffix
from shardfeed.transforms.sources.base import Source

_WILDCARDS = re.compile(r"[*?\[]")
_ESCAPED = re.compile(r"\[([*?\[\]{}])\]")
_BRACES = re.compile(r"(?<!\[)\{([^{}]*,[^{}]*)\}")
_SET = re.compile(r"\[(!?)(\]?[^\]]*)\]", re.DOTALL)
_SET_OPERATORS = re.compile(r"[\\^\[\]&|~]")  # special inside a set of a regular expression
_LIST_COLUMN = re.compile(r"(.+\.(?:csv|parquet)):([^/]+)", re.IGNORECASE)
_PACKED = frozenset({".gz", ".bz2", ".xz", ".zst", ".zip"})
_SHOWN = 4  # inputs that a message spells out


@dataclass(frozen=True, slots=True)
class InputRoot:
    """A root and its globs, relative to it: a file must match one. Without globs: all files below.

    ``class_depth``: number of folders below the root that are splits and classes; 0 if there are
    none. ``lists``: if any, the root's files are those that these name.
    """

    url: str
    globs: tuple[str, ...] = ()
    class_depth: int = 1
    lists: tuple[InputList, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class InputList:
    """A file that names images. ``column``: of a table; empty: the first one.

    ``prefix``: the root as its user wrote it, which may be a link to the root's own address.
    """

    url: str
    column: str
    prefix: str


def parse_inputs(inputs: list[str], *, class_depth: int = 1, list_root: str | None = None) -> tuple[InputRoot, ...]:
    """Roots of ``--input`` values, equal roots joined, sorted.

    ``list_root``: the root of every list; None: the folder that holds the list.

    Raises:
        UsageError: one root lies inside another, or a value is empty or no glob of ours.
    """
    merged: dict[str, set[str] | None] = {}
    lists: dict[str, set[InputList]] = {}
    if list_root is not None and not any(text.startswith("@") for text in inputs):
        raise UsageError("--list_root is the root of a list, and there is none. Give one: --input @list.txt")
    for text in inputs:
        if text.startswith("@"):
            root, found = _parse_list(text, list_root)
            lists.setdefault(root, set()).add(found)
            continue
        root, glob = _split_glob(text)
        globs = merged.setdefault(root, set())
        if glob is None or globs is None:
            merged[root] = None
        else:
            globs.add(glob)
    for root in sorted(merged.keys() & lists.keys()):
        raise UsageError(
            f"--input {clip(root)} is also the root of the list {clip(min(lists[root]).url)}: its images would be listed twice. "
            "Give the folder or the list."
        )
    roots = sorted(merged.keys() | lists.keys())
    for inner in roots:
        for outer in roots:
            if inner != outer and inner.startswith(outer.rstrip("/") + "/") and not suffix_of(inner):
                raise UsageError(
                    f"--input {clip(inner)} lies inside --input {clip(outer)}: its images would be listed twice with "
                    "different classes. Give only one of them, or build two datasets."
                )
    return tuple(
        InputRoot(root, tuple(sorted(merged.get(root) or ())), class_depth, tuple(sorted(lists.get(root, ()))))
        for root in roots
    )


def _parse_list(text: str, list_root: str | None) -> tuple[str, InputList]:
    """(root, list) of ``@PATH`` or ``@PATH:COLUMN``."""
    path, column = text[1:], ""
    remote = storage.is_remote(path)
    if not remote:
        path = os.path.expanduser(path)
    if (found := _LIST_COLUMN.fullmatch(path)) and (remote or not os.path.exists(path)):
        path, column = found.groups()
    suffix = os.path.splitext(path)[1].lower()
    if not path or suffix in _PACKED or path.endswith("/") or (not remote and os.path.isdir(path)):
        raise UsageError(
            f"--input {clip(text)}: behind @ stands a list of images: a text file with a path or address per line, a .csv "
            "or a .parquet (@list.csv:COLUMN; else the first column), not packed. A folder whose name begins with @ is written "
            "./@name."
        )
    url = _normal(path, remote)
    prefix = list_root if list_root is not None else url.rpartition("/")[0] if remote else os.path.dirname(path)
    if storage.is_remote(prefix):
        prefix = storage.normal_url(prefix)
    else:
        prefix = os.path.abspath(os.path.expanduser(prefix))
    return _normal(prefix, storage.is_remote(prefix)), InputList(url, column, prefix)


def _split_glob(text: str) -> tuple[str, str | None]:
    """(root, glob or None)."""
    if not text:
        raise UsageError(
            "--input is empty. Give a folder (photos/), a bucket (gs://photos) or a glob (photos/*/*.jpg)."
        )
    remote = storage.is_remote(text)
    if not remote:
        text = os.path.expanduser(text)
        if os.path.isdir(text):
            return _normal(text, remote), None
    _refuse_braces(text)
    if not _has_wildcards(text):
        return _whole(text, _normal(_ESCAPED.sub(r"\1", text), remote)), None
    root, glob = _cut(text, remote)
    _whole(text, os.path.join(root, "*"))
    if archive_suffix(glob):
        raise UsageError(f"--input {clip(text)}: a glob cannot choose among archives. Give one --input for each.")
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
    return _normal(root or ".", remote), glob


def _whole(text: str, root: str) -> str:
    """``root``, unless it lies inside of an archive on this disk."""
    folder = os.path.dirname(root)
    while not storage.is_remote(root) and len(folder) > 1:
        if archive_suffix(folder) and os.path.isfile(folder):
            raise UsageError(
                f"--input {clip(text)}: {clip(folder)} is an archive, which is an input as a whole, without folders or globs. "
                f"Give --input {clip(folder)}, or unpack it."
            )
        folder = os.path.dirname(folder)
    return root


def _cut(text: str, remote: bool) -> tuple[str, str]:
    at = text.index("://") + 3 if remote else 0
    root = text[:at]
    while (slash := text.find("/", at)) >= 0:
        folder = text[at:slash]
        if not remote and os.path.isdir(root + folder):
            root += folder + "/"
        elif not _has_wildcards(folder):
            root += _ESCAPED.sub(r"\1", folder) + "/"
        else:
            break
        at = slash + 1
    return root, text[at:]


def _has_wildcards(text: str) -> bool:
    return bool(_WILDCARDS.search(_ESCAPED.sub("", text)))


def _refuse_braces(text: str) -> None:
    if _BRACES.search(text):
        each = _without_braces(text)
        raise UsageError(
            f"--input {clip(text)}: braces are not supported in globs. Give one --input for each: "
            + " ".join(f"--input '{clip(one)}'" for one in each[:_SHOWN])
            + (" …" if len(each) > _SHOWN else "")
            + ". (A brace that is part of a name is written [{].)"
        )


def _without_braces(text: str) -> list[str]:
    """Globs that match what a shell would make of the braces; only as many as a message shows."""
    match = _BRACES.search(text)
    if match is None:
        return [text]
    some, before, behind = match[1].split(",")[: _SHOWN + 1], text[: match.start()], text[match.end() :]
    if behind.count("/") == 1 and not _has_wildcards(before):  # as a set it stays behind the root, and is the class
        some = [f"[{word[0]}]{word[1:]}" if word[:1].isalnum() else word for word in some]
    return [one for word in some for one in _without_braces(before + word + behind)]


def _normal(root: str, remote: bool) -> str:
    return storage.normal_url(root) if remote else os.path.realpath(root)


def glob_regex(glob: str) -> re.Pattern[str]:
    """``*`` and ``?`` stay in a folder, ``**`` crosses folders, ``[ab]`` and ``[!ab]`` are sets.

    It matches whole keys as ``os.fsdecode`` gives them: ``?`` is a character, not a byte.

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


def check_root(root: InputRoot, source: Source) -> None:
    """Checks a root at the start: one request, or for a glob with brackets a listing of one level.

    Raises:
        UnreadableError: the root is absent or may not be listed.
        UsageError: the first part of a glob matches no folder, but is exactly the name of one. In
            a bucket, only a listing shows that the brackets were meant literally.
    """
    if not any("[" in glob.partition("/")[0] for glob in root.globs):
        return source.check()
    sections = source.sections()
    names = [os.fsdecode(section.rstrip(b"/")) for section in sections]
    for glob in root.globs:
        first, slash, rest = glob.partition("/")
        if "[" in first and first in names and not any(map(glob_regex(first).fullmatch, names)):
            escaped = storage.join_url(root.url, first.replace("[", "[[]") + slash + rest)
            raise UsageError(
                f"--input {clip(storage.join_url(root.url, glob))}: in a glob, [ ] is a set of characters, so that {clip(first)} "
                f"does not match the folder of that very name. Write [ as [[]: --input '{clip(escaped)}'"
            )
