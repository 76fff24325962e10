"""Deep verification of one shard: framing, checksum, every record, block boundaries, index lines."""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import BinaryIO

from shardfeed import naming
from shardfeed.checksums import crc32c, to_hex
from shardfeed.errors import clip
from shardfeed.findings import Finding, restore
from shardfeed.hashing import key_hash
from shardfeed.manifest import Shard
from shardfeed.storage.base import NotFoundError, Store
from shardfeed.stored_file import open_file
from shardfeed.tfrecord import RecordError, scan
from shardfeed.verify_record import RecordCheck, RecordProblem

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


def check_shard(store: Store, shard: Shard, number: int, present: Mapping[str, int], check: RecordCheck) -> ShardCheck:
    """Read ``shard``, the ``number``-th of the dataset. ``present``: bytes by name of the files that were found."""
    remedy = restore(shard.file, store.url)
    size = present[shard.file]
    pass_ = _Pass(shard.file, number, remedy)
    crc = None
    try:
        with open_file(store, shard.file, size) as file:
            crc = pass_.run(file, check)
    except NotFoundError:
        pass_.findings.append(Finding(shard.file, None, "file", f"{shard.bytes} bytes", "no file", remedy))
    same = crc is not None and to_hex(crc) == shard.crc32c and size == shard.bytes
    if crc is not None and size == shard.bytes and not same:
        pass_.findings.append(Finding(shard.file, None, "crc32c", shard.crc32c, to_hex(crc), remedy))
    findings = list(pass_.capped())
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

    def __init__(self, name: str, number: int, remedy: str) -> None:
        self._name, self._number, self._remedy = name, number, remedy
        self.findings: list[Finding] = []
        self.offsets = array("Q")  # of the records read
        self.entries = bytearray()
        self.class_counts: Counter[int] = Counter()

    def run(self, file: BinaryIO, check: RecordCheck) -> int | None:
        """CRC-32C of the whole file; None where the framing is damaged and the rest cannot be read."""
        tee = _Checksummed(file)
        try:
            for offset, data in scan(tee):  # type: ignore[arg-type]
                self.offsets.append(offset)
                self._record(offset, data, check)
        except RecordError as error:
            what = f"record {error.index}: {error.what}"
            self._add(error.offset, what, error.expected, error.found)
            return None
        return tee.crc

    def _record(self, offset: int, data: bytes, check: RecordCheck) -> None:
        try:
            key, class_index = check(data)
        except RecordProblem as problem:
            what = f"record {len(self.offsets) - 1}: {problem.what}"
            self._add(offset, what, problem.expected, problem.found)
            return
        self.entries += (key_hash(key) >> 32).to_bytes(12, "big") + _PLACE.pack(self._number, offset)
        self.class_counts[class_index] += 1

    def _add(self, offset: int, what: str, expected: str, found: str) -> None:
        self.findings.append(Finding(self._name, offset, what, clip(expected), clip(found), self._remedy))

    def capped(self) -> list[Finding]:
        """The first findings, and how many more there are."""
        more = len(self.findings) - _MAX_FINDINGS
        if more <= 0:
            return self.findings
        rest = Finding(
            self._name, None, "records", "records in order", f"{more} more findings in this file", self._remedy
        )
        return [*self.findings[:_MAX_FINDINGS], rest]


class _Checksummed:
    """Reads like ``file``, summing what it hands out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.crc = file, 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.crc = crc32c(data, self.crc)
        return data


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
