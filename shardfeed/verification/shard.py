"""Deep verification of one shard: framing, checksum, every record, block boundaries, index lines.

Every damaged record is named, up to a limit. A damaged record does not hide those behind it (see
``frames``).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from shardfeed.verification.frames import Unread, frames, published_starts
from shardfeed.verification.record import RecordCheck, RecordProblem
from shardfeed.verification.report import Finding, no_file, restore

_MAX_FINDINGS = 10  # per shard; a systematic fault would give one per record


@dataclass(slots=True)
class ShardCheck:
    """What one reading of a shard gave.

    Attributes:
        findings: Problems.
        intact: The file is byte for byte the manifest's, and every record is in order.
        offsets: Where the frames begin that were read.
        hashes: 64 bits of the key's hash, per record in order.
        class_counts: Number of records by class index.
    """

    findings: list[Finding] = field(default_factory=list)
    intact: bool = False
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    hashes: array[int] = field(default_factory=lambda: array("Q"))
    class_counts: Counter[int] = field(default_factory=Counter)


def check_shard(
    store: Store, shard: Shard, present: Mapping[str, int], check: RecordCheck, index: SideFile | None
) -> ShardCheck:
    """Read ``shard``.

    ``present``: bytes by name of the files that were found. ``index``: the manifest's entry for the
    shard's index.
    """
    size = present[shard.file]
    remedy = restore(shard.file, store.url)
    result = ShardCheck()
    try:
        with open_file(store, shard.file, size) as file:
            crc = _read(file, shard, check, lambda: published_starts(store, index, present), remedy, result)
    except NotFoundError:
        result.findings.append(no_file(shard.file, shard.bytes, store.url))
        return result
    if crc is not None and size == shard.bytes:
        if to_hex(crc) != shard.crc32c:
            result.findings.append(Finding(shard.file, None, "crc32c", shard.crc32c, to_hex(crc), remedy))
        result.intact = not result.findings
    if result.intact:
        result.findings += _counts(store, shard, result.offsets)
        result.findings += _index(store, shard, result.offsets, present)
    return result


def _read(
    file: BinaryIO,
    shard: Shard,
    check: RecordCheck,
    starts: Callable[[], Sequence[int] | None],
    remedy: str,
    result: ShardCheck,
) -> int | None:
    """Reads all records into ``result``; the file's CRC-32C, or None if a frame is damaged."""
    tee, damaged, problems, unread = _Checksummed(file), False, 0, None
    for frame in frames(tee, shard.records, starts):
        problem: RecordError | RecordProblem
        if isinstance(frame, Unread):
            damaged, unread = True, frame
            break
        if isinstance(frame, RecordError):
            damaged, problem = True, frame
        else:
            result.offsets.append(frame.offset)
            try:
                key, class_index = check(frame.data)
            except RecordProblem as error:
                problem = error
            else:
                result.hashes.append(key_hash(key) >> 64)
                result.class_counts[class_index] += 1
                continue
        problems += 1
        if problems <= _MAX_FINDINGS:
            what = f"record {frame.index}: {problem.what}"
            expected, found = clip(problem.expected), clip(problem.found)
            result.findings.append(Finding(shard.file, frame.offset, what, expected, found, remedy))
    if problems > _MAX_FINDINGS:
        found = f"{problems - _MAX_FINDINGS} more findings in this file"
        result.findings.append(Finding(shard.file, None, "records", "records in order", found, remedy))
    if unread is not None:
        what = f"records {unread.first} to {unread.last}" if unread.first < unread.last else f"record {unread.first}"
        found = (
            f"not read: the length of record {unread.first - 1} is damaged, and {naming.index_name(shard.file)}, "
            "which also says where the next record begins, is missing or damaged"
        )
        result.findings.append(Finding(shard.file, unread.offset, what, "readable", found, remedy))
    return None if damaged else tee.crc


class _Checksummed:
    """Reads like ``file``, and sums up the bytes that it hands out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.crc = file, 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.crc = crc32c(data, self.crc)
        return data

    def seek(self, offset: int) -> None:
        """Makes the sum wrong. It is used only if no frame is damaged, and then nobody seeks."""
        self._file.seek(offset)


def _counts(store: Store, shard: Shard, offsets: array[int]) -> list[Finding]:
    """Checks the manifest's counts. Wrong ones make readers seek into the middle of a record."""
    remedy = restore(naming.MANIFEST, store.url)
    if len(offsets) != shard.records:
        what = f"records of {shard.file}"
        return [Finding(naming.MANIFEST, None, what, f"{len(offsets)} as in the file", f"{shard.records}", remedy)]
    ends = [*offsets[1:], shard.bytes]
    block_ends = accumulate(shard.blocks, lambda a, b: (a[0] + b[0], a[1] + b[1]))
    for number, (records, end) in enumerate(block_ends):
        if ends[records - 1] != end:
            what = f"block {number} of {shard.file}"
            expected = f"end at byte {ends[records - 1]}, after {records} records"
            return [Finding(naming.MANIFEST, None, what, expected, f"end at byte {end}", remedy)]
    return []


def _index(store: Store, shard: Shard, offsets: array[int], present: Mapping[str, int]) -> list[Finding]:
    """Checks the index: a line ``offset size`` per frame, as DALI's ``tfrecord2idx`` writes it."""
    name = naming.index_name(shard.file)
    if name not in present:
        return []
    lines = [
        b"%d %d\n" % (offset, end - offset) for offset, end in zip(offsets, [*offsets[1:], shard.bytes], strict=True)
    ]
    at = 0
    try:
        with open_file(store, name, present[name]) as file:
            for expected in [*lines, b""]:
                line = file.readline(64)
                if line != expected:
                    shown = clip(expected) or "the end", clip(line) or "the end"
                    return [Finding(name, at, "line", *shown, restore(name, store.url))]
                at += len(line)
    except NotFoundError:
        return [no_file(name, present[name], store.url)]
    return []
