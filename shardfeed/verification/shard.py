"""Deep verification of one shard: framing, checksum, every record, block boundaries, index lines.

Every damaged record is named, up to a limit. Where a record begins is never guessed: the length of
the record before says it. So a damaged length ends the reading of its shard; a search for bytes
that look like a header would find records of its own making.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import BinaryIO

from shardfeed.decoding import RecordProblem
from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.hashing import key_hash
from shardfeed.format.manifest import Shard
from shardfeed.format.tfrecord import OVERHEAD, RecordError, read_record
from shardfeed.storage.base import NotFoundError, Store
from shardfeed.storage.stored_file import open_file
from shardfeed.verification.record import RecordCheck
from shardfeed.verification.record_files import Beside, Seen, check_beside
from shardfeed.verification.report import Finding, no_file, restore

_MAX_FINDINGS = 10  # per shard; a systematic fault would give one per record


@dataclass(slots=True)
class ShardCheck:
    """What one reading of a shard gave.

    Attributes:
        offsets: Where the frames begin that were read.
        hashes: 64 bits of the key's hash, per record in order.
        findings: Problems.
        intact: The file is byte for byte the manifest's, and every record is in order.
        class_counts: Number of records by class index.
    """

    offsets: array[int]
    hashes: array[int]
    findings: list[Finding] = field(default_factory=list)
    intact: bool = False
    class_counts: Counter[int] = field(default_factory=Counter)


def check_shard(
    store: Store, shard: Shard, beside: Beside, present: Mapping[str, int], check: RecordCheck, whole: Mapping[str, int]
) -> ShardCheck:
    """Read ``shard``, and compare what lies ``beside`` it.

    ``present``: bytes by name of the files that were found; ``whole``: without those of a wrong
    size.
    """
    size = present[shard.file]
    remedy = restore(shard.file, store.url)
    seen = Seen()
    result = ShardCheck(offsets=seen.offsets, hashes=seen.hashes)
    try:
        with open_file(store, shard.file, size) as file:
            crc = _read(file, shard, check, remedy, result, seen)
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
        if len(seen.classes) == shard.records:  # else the manifest is wrong, and it is reported
            result.findings += check_beside(store, check.manifest, beside, size, seen, whole)
        result.class_counts.update(seen.classes if not seen.several else chain.from_iterable(seen.several))
    return result


def _read(file: BinaryIO, shard: Shard, check: RecordCheck, remedy: str, result: ShardCheck, seen: Seen) -> int | None:
    """Reads the records into ``result`` and ``seen``; the file's CRC-32C, None if it is damaged."""
    tee, damaged, problems, index = _Checksummed(file), False, 0, 0
    single = check.manifest.label_kind == "single"
    end: int | None = 0
    while end is not None:
        offset, unread = end, ""
        problem: RecordError | RecordProblem | None = None
        try:
            data = read_record(tee, offset, index)  # type: ignore[arg-type]
            if data is None:
                break
            end = offset + len(data) + OVERHEAD
            seen.offsets.append(offset)
            key, classes, height, width, further = check(data)
            seen.hashes.append(key_hash(key) >> 64)
            seen.classes.append(classes[0] if single else -1)
            if not single:
                seen.several.append(classes)
            seen.heights.append(height)
            seen.widths.append(width)
            seen.further.extend(further)
        except RecordError as error:
            damaged, problem, end = True, error, error.end
            if end is None and index + 1 < shard.records:
                unread = "; the records behind it cannot be read"
        except RecordProblem as error:
            problem = error
        if problem is not None:
            problems += 1
            if problems <= _MAX_FINDINGS:
                what = f"record {index}: {problem.what}"
                expected, found = clip(problem.expected), clip(problem.found) + unread
                result.findings.append(Finding(shard.file, offset, what, expected, found, remedy))
        index += 1
    if problems > _MAX_FINDINGS:
        found = f"{problems - _MAX_FINDINGS} more findings in this file"
        result.findings.append(Finding(shard.file, None, "records", "records in order", found, remedy))
    return None if damaged else tee.crc


class _Checksummed:
    """Reads like ``file``, and sums up the bytes that it hands out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.crc = file, 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.crc = crc32c(data, self.crc)
        return data


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
