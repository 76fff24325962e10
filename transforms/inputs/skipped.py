"""Files that are skipped by their suffix, but hold an image: ``p.jpg?w=200``, ``photo.jpg.1``.

The listing keeps a sample of names, and their first bytes are read once, after the build. The
sample is one file of each suffix, of at most 16 suffixes, so that a million files ``.json`` do not
hide ten images. Names that hold an image's suffix elsewhere come first, then hashes decide. So the
sample does not depend on the order of the listing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from operator import itemgetter

from shardfeed.errors import ShardfeedError, clip
from shardfeed.format.hashing import hash64
from shardfeed.storage import Stat
from shardfeed.transforms.images.formats.table import INPUT_FORMATS
from shardfeed.transforms.images.rejects import RejectError
from shardfeed.transforms.images.suffixes import IMAGE_SUFFIXES
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.sources.base import ChangedError, ChecksumError, FileSource

SKIPPED = "skipped"
"""``RefBatch.fault`` of a sample; its files count as skipped in another batch."""

MOST_FILES = 16
_HEAD_BYTES = 4096  # a HEIC file names its kind within these
_MOST_BYTES = 8 << 20  # of a member of an archive, which is read whole
_SHOWN = 3
_INSIDE = re.compile(rb"(?:%s)[^a-z0-9]" % b"|".join(map(re.escape, sorted(IMAGE_SUFFIXES))), re.IGNORECASE)

SkippedFile = tuple[int, str, int, int]
"""Number of the root, key, bytes and version of a file that was skipped."""


class SkippedSample:
    """One file of each suffix, at most ``MOST_FILES``; a sample of samples is that of all files."""

    def __init__(self) -> None:
        self._best: dict[str, tuple[bool, int, SkippedFile]] = {}

    def add(self, file: SkippedFile) -> None:
        """Notes a file that is not empty."""
        suffix, name = file[1].rpartition(".")[2].lower(), file[1].encode()
        ranked = _INSIDE.search(name) is None, hash64("skipped", 0, name), file
        self._best[suffix] = min(self._best.get(suffix, ranked), ranked)
        if len(self._best) > 2 * MOST_FILES:
            self._best = dict(self._first())

    def files(self) -> tuple[SkippedFile, ...]:
        """The sample, the likeliest images first."""
        return tuple(file for _, (_, _, file) in self._first())

    def _first(self) -> list[tuple[str, tuple[bool, int, SkippedFile]]]:
        return sorted(self._best.items(), key=itemgetter(1))[:MOST_FILES]


def note_of_skipped(roots: Sequence[InputRoot], files: Iterable[SkippedFile]) -> str:
    """What the user should know of the files in a sample; empty if none of them is an image.

    A file that cannot be read is not counted: the build does not need it.
    """
    looks = side_by_side(roots[0].url, lambda file: (file[1], _is_image(roots, file)), files)
    read = [(key, is_image) for key, is_image in looks if is_image is not None]
    images = [key for key, is_image in read if is_image]
    if not images:
        return ""
    shown = ", ".join(clip(key, 100) for key in images[:_SHOWN]) + ", …" * (len(images) > _SHOWN)
    return (
        f"of {len(read):,} skipped files that were looked at, one per suffix, {len(images):,} hold{'s' * (len(images) == 1)} an "
        f"image: {shown}. Rename such files, so that they end in .jpg, .png or the like, and build into another output"
    )


def _is_image(roots: Sequence[InputRoot], file: SkippedFile) -> bool | None:
    """Whether a file holds an image; None if it cannot be read."""
    from shardfeed.transforms.images.sniff import sniff

    root, key, size, version = file
    with contextlib.suppress(ShardfeedError, ChangedError, ChecksumError):
        source, stat = open_source(roots[root].url), Stat(size, version)
        if isinstance(source, FileSource):
            data = source.read_range(key.encode(), stat, 0, min(size, _HEAD_BYTES))
        elif size <= _MOST_BYTES:
            data = source.read(key.encode(), stat)
        else:
            return None
        try:
            return bool(sniff(data, INPUT_FORMATS))
        except RejectError:
            return False
    return None
