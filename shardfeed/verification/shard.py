"""Deep verification of one shard: framing, checksum, every record, block boundaries, index lines.

Every damaged record is named, up to a limit; a damaged one does not hide those behind it (see ``verify_frames``).
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import BinaryIO

from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.hashing import key_hash
from shardfeed.format.manifest import Shard, SideFile
from shardfeed.format.tfrecord import RecordError
from shardfeed.storage.base import NotFoundError, Store
from shardfeed.storage.seekable import open_file
from shardfeed.verification.frames import Record, Unread, frames, published_starts
from shardfeed.verification.record import RecordCheck, RecordProblem
from shardfeed.verification.report import Finding, restore

ENTRY = 24  # bytes a record: 96 bits of its key's hash (100 M keys collide with odds of 1e-13), shard number, offset
_PLACE = struct.Struct(">IQ")
_MAX_FINDINGS = 10  # a shard; a systematic fault would give one a record


@dataclass(frozen=True, slots=True)
class ShardCheck:
    """``intact``: the file is byte for byte the manifest's and every record is in order.

    ``entries``: ``ENTRY`` bytes a record, key hash first. ``class_counts``: records by class index.
    """

    findings: tuple[Finding, ...]
    records: int
    intact: bool
    entries: bytes
    class_counts: Counter[int]


def entry_place(entry: bytes) -> tuple[int, int]:
    """(shard number, offset) of an entry."""
    number, offset = _PLACE.unpack_from(entry, 12)
    return number, offset


def check_shard(
    store: Store,
    shard: Shard,
    number: int,
    present: Mapping[str, int],
    check: RecordCheck,
    index: SideFile | None,
) -> ShardCheck:
    """Read ``shard``, the ``number``-th of the dataset. ``present``: bytes by name of the files that were found.

    ``index``: what the manifest says of the shard's index.
    """
    remedy = restore(shard.file, store.url)
    size = present[shard.file]
    pass_ = _Pass(shard, number, remedy)
    crc, gone = None, []
    try:
        with open_file(store, shard.file, size) as file:
            crc = pass_.run(file, check, lambda: published_starts(store, index, present))
    except NotFoundError:
        gone = [Finding(shard.file, None, "file", f"{shard.bytes} bytes", "no file", remedy)]
    same = crc is not None and to_hex(crc) == shard.crc32c and size == shard.bytes
    findings = [*pass_.findings(), *gone]
    if crc is not None and size == shard.bytes and not same:
        findings.append(Finding(shard.file, None, "crc32c", shard.crc32c, to_hex(crc), remedy))
    intact = same and not findings
    if intact:
        findings += _counts(store, shard, pass_.offsets, size)
        findings += _index(store, shard, pass_.offsets, present)
    return ShardCheck(
        findings=tuple(findings),
        records=len(pass_.offsets),
        intact=intact,
        entries=bytes(pass_.entries),
        class_counts=pass_.class_counts,
    )


class _Pass:
    """One reading of a shard."""

    def __init__(self, shard: Shard, number: int, remedy: str) -> None:
        self._shard, self._number, self._remedy = shard, number, remedy
        self._named: list[Finding] = []  # up to the limit
        self._more = 0
        self._unread: Unread | None = None
        self.offsets = array("Q")  # of the records read
        self.entries = bytearray()
        self.class_counts: Counter[int] = Counter()

    def run(self, file: BinaryIO, check: RecordCheck, starts: Callable[[], Sequence[int] | None]) -> int | None:
        """CRC-32C of the whole file; None where a record is damaged, which says it better."""
        tee, damaged = _Checksummed(file), False
        for frame in frames(tee, self._shard.records, starts):
            if isinstance(frame, Record):
                self.offsets.append(frame.offset)
                self._record(frame, check)
                continue
            damaged = True
            if isinstance(frame, RecordError):
                self._add(frame.offset, frame.index, frame.what, frame.expected, frame.found)
            else:
                self._unread = frame
        return None if damaged else tee.crc

    def _record(self, record: Record, check: RecordCheck) -> None:
        try:
            key, class_index = check(record.data)
        except RecordProblem as problem:
            self._add(record.offset, record.index, problem.what, problem.expected, problem.found)
            return
        self.entries += (key_hash(key) >> 32).to_bytes(12, "big") + _PLACE.pack(self._number, record.offset)
        self.class_counts[class_index] += 1

    def _add(self, offset: int, index: int, what: str, expected: str, found: str) -> None:
        if len(self._named) == _MAX_FINDINGS:
            self._more += 1
            return
        finding = Finding(
            self._shard.file, offset, f"record {index}: {what}", clip(expected), clip(found), self._remedy
        )
        self._named.append(finding)

    def findings(self) -> list[Finding]:
        """The first damaged records, how many more there are, and what could not be read."""
        name, found = self._shard.file, list(self._named)
        if self._more:
            said = f"{self._more} more findings in this file"
            found.append(Finding(name, None, "records", "records in order", said, self._remedy))
        if self._unread is not None:
            first, last = self._unread.first, self._unread.last
            what = f"record {first}" if first == last else f"records {first} to {last}"
            said = (
                f"not read: the length of record {first - 1} is damaged, and {naming.index_name(name)}, "
                "which also says where the next record begins, is missing or damaged"
            )
            found.append(Finding(name, self._unread.offset, what, "readable", said, self._remedy))
        return found


class _Checksummed:
    """Reads like ``file``, summing what it hands out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.crc = file, 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.crc = crc32c(data, self.crc)
        return data

    def seek(self, offset: int) -> None:
        """Leaves bytes out of the sum; only where a damaged record has made it worthless."""
        self._file.seek(offset)


def _counts(store: Store, shard: Shard, offsets: array[int], size: int) -> list[Finding]:
    """The manifest's counts of a file whose bytes are right: wrong ones make readers seek into a record's middle."""
    remedy = restore(naming.MANIFEST, store.url)
    if len(offsets) != shard.records:
        what = f"records of {shard.file}"
        return [Finding(naming.MANIFEST, None, what, f"{len(offsets)} as in the file", f"{shard.records}", remedy)]
    ends = [*offsets[1:], size]
    starts = accumulate(shard.blocks, lambda a, b: (a[0] + b[0], a[1] + b[1]))
    for index, (records, end) in enumerate(starts):
        if ends[records - 1] != end:
            what = f"block {index} of {shard.file}"
            expected = f"end at byte {ends[records - 1]}, after {records} records"
            return [Finding(naming.MANIFEST, None, what, expected, f"end at byte {end}", remedy)]
    return []


def _index(store: Store, shard: Shard, offsets: array[int], present: Mapping[str, int]) -> list[Finding]:
    """The index has one ``offset size`` line a record, framing included, as NVIDIA DALI's ``tfrecord2idx`` writes it."""
    name = naming.index_name(shard.file)
    if name not in present:
        return []
    remedy = restore(name, store.url)
    ends = [*offsets[1:], shard.bytes]
    at = 0
    try:
        with open_file(store, name, present[name]) as file:
            for offset, end in zip(offsets, ends, strict=True):
                expected = b"%d %d\n" % (offset, end - offset)
                line = file.readline(64)
                if line != expected:
                    return [Finding(name, at, "line", clip(expected), clip(line) or "the end", remedy)]
                at += len(line)
            if rest := file.read(64):
                return [Finding(name, at, "line", "the end", clip(rest), remedy)]
    except NotFoundError:
        return [Finding(name, None, "file", f"{present[name]} bytes", "no file", remedy)]
    return []
