"""The rejects of a dataset by reason, the first of each drawn if its source can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardfeed import storage
from shardfeed.dataset.info import DatasetInfo
from shardfeed.format import naming
from shardfeed.reporting.lines import json_lines
from shardfeed.reporting.pictures import PictureBudget, Thumbnail, source_thumbnail
from shardfeed.words import largest_first

REJECTS_SHOWN = 12  # per reason
_MOST_FILES = 4  # that are looked through for the first of each reason
_MOST_BYTES = 64 << 20  # of a source; by default builds read no larger ones
_CODEC_KILLERS = ("CRASHED", "TIMEOUT", "MEMORY")  # reasons whose sources are not decoded again here


@dataclass(frozen=True, slots=True)
class Reject:
    """A rejected image. ``thumbnail``: None if its source was not read."""

    key: str
    detail: str
    thumbnail: Thumbnail | None = None


@dataclass(frozen=True, slots=True)
class Rejects:
    """The rejects of one reason: their number, and the first of them."""

    reason: str
    count: int
    first: tuple[Reject, ...]


def rejects_by_reason(dataset: DatasetInfo, sources: Sequence[str], budget: PictureBudget) -> list[Rejects]:
    """The rejects, the most frequent reason first; ``sources``: roots in which a key is looked for.

    Raises:
        DatasetError: a file of rejects is damaged.
        UsageError: a source cannot be read at all, for example for lack of credentials.
        StorageError: a store kept failing.
    """
    counts = {reason: count for reason, count in dataset.manifest.rejected.items() if count}
    first: dict[str, list[Reject]] = {reason: [] for reason in counts}
    missing = sum(min(REJECTS_SHOWN, count) for count in counts.values())
    files = [file.file for file in dataset.manifest.files if naming.is_rejects(file.file)]
    for name in files[:_MOST_FILES] if missing else ():
        for line in json_lines(dataset, name):
            known = first.get(str(line.get("reason")))
            if known is not None and len(known) < REJECTS_SHOWN:
                known.append(Reject(str(line.get("key", "")), str(line.get("detail", ""))))
                missing -= 1
                if not missing:
                    break
        if not missing:
            break
    return [
        Rejects(reason, count, tuple(_drawn(reject, reason, sources, budget) for reject in first[reason]))
        for reason, count in largest_first(counts)
    ]


def _drawn(reject: Reject, reason: str, sources: Sequence[str], budget: PictureBudget) -> Reject:
    if reason in _CODEC_KILLERS or not budget.left:
        return reject
    data = next((found for source in sources if (found := _source(source, reject.key)) is not None), None)
    if data is None:
        return reject
    thumbnail = source_thumbnail(data)
    return Reject(reject.key, reject.detail, thumbnail if budget.takes(thumbnail) else None)


def _source(root: str, key: str) -> bytes | None:
    """The bytes of the source ``key`` below ``root``; None if there is no file, or a huge one."""
    if not storage.is_remote(root) and ("\0" in key or ".." in key.split("/") or key.startswith("/")):
        return None  # no key of a build; it would lead out of the root
    store = storage.open_store(root)
    try:
        stat = store.stat(key)
        if stat is None or not 0 < stat.size <= _MOST_BYTES:
            return None
        return store.read_range(key, 0, stat.size)
    except (storage.NotFoundError, storage.UnreadableError, UnicodeEncodeError):  # a lone surrogate is no name
        return None
