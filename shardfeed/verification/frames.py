"""The frames of a shard that may be damaged, whole and damaged ones, as far as they can be found.

Where a record begins is never guessed. The length of the record before gives it, or, if that length
is damaged, the shard's index, if its bytes are the published ones. A search for bytes that look
like a header would find records of its own making, with wrong numbers. Records whose place is not
known are reported as unread instead.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import SideFile
from shardfeed.format.tfrecord import OVERHEAD, RecordError, read_record
from shardfeed.storage.base import NotFoundError, Store
from shardfeed.storage.seekable import open_file


class Readable(Protocol):
    """The part of a file's interface that ``frames`` needs."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame whose checksums are right: its number in the shard, its offset in bytes, its data."""

    index: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """Records ``first`` to ``last``, somewhere behind the damaged length at ``offset``."""

    offset: int
    first: int
    last: int


def frames(
    file: Readable, records: int, starts: Callable[[], Sequence[int] | None]
) -> Iterator[Frame | RecordError | Unread]:
    """Every frame of ``file``, whole or damaged, in order; ``Unread`` if the rest cannot be read.

    ``records``: how many there should be. ``starts`` gives the offsets of all records, or None if
    they are not known. It is called at most once, and only if a length is damaged.
    """
    offset = index = 0
    known: Sequence[int] | None = None
    while True:
        end: int | None
        try:
            data = read_record(file, offset, index)  # type: ignore[arg-type]
        except RecordError as damage:
            yield damage
            end = damage.end
        else:
            if data is None:
                return
            yield Frame(index, offset, data)
            end = offset + len(data) + OVERHEAD
        if end is not None:
            offset, index = end, index + 1
            continue
        known = starts() if known is None else known
        if known is None:
            if index + 1 < records:
                yield Unread(offset, index + 1, records - 1)
            return
        index = bisect_right(known, offset)
        if index == len(known):
            return
        offset = known[index]
        file.seek(offset)


def published_starts(store: Store, index: SideFile | None, present: Mapping[str, int]) -> array[int] | None:
    """Offsets of a shard's records from its index; None unless that has the published bytes."""
    if index is None or present.get(index.file) != index.bytes:
        return None
    try:
        with open_file(store, index.file, index.bytes) as file:
            data = file.read()
    except NotFoundError:
        return None
    if to_hex(crc32c(data)) != index.crc32c:
        return None
    try:
        found = array("Q", (int(line.split()[0]) for line in data.splitlines()))
    except (ValueError, IndexError, OverflowError):  # the manifest lists it, but another program wrote it
        return None
    return found if all(found[i] < found[i + 1] for i in range(len(found) - 1)) else None
