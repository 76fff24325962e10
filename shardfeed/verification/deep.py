"""Deep verification of a whole dataset: shards and side files one by one in a pool, then what holds between them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from itertools import pairwise

from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c_file, to_hex
from shardfeed.format.example import decode_example
from shardfeed.format.manifest import Manifest, Shard, SideFile
from shardfeed.format.tfrecord import scan
from shardfeed.storage.base import NotFoundError, Store
from shardfeed.storage.seekable import open_file
from shardfeed.verification.record import RecordCheck
from shardfeed.verification.report import Finding, rebuild, restore
from shardfeed.verification.shard import ENTRY, ShardCheck, check_shard, entry_place

_BUCKETS = 256  # by the first byte of a key's hash: sorting needs 1/256 of the keys as Python objects at a time
_MAX_DUPLICATES = 10


def verify_deep(
    store: Store, manifest: Manifest, present: Mapping[str, int], pool: Executor
) -> tuple[list[Finding], int]:
    """Findings that sizes cannot show, and the number of records read. ``present``: bytes by name of the files found."""
    check = RecordCheck(manifest)
    sides_by_name = {file.file: file for file in manifest.files}
    shards = [
        (number, shard)
        for number, shard in enumerate(shard for split in manifest.splits.values() for shard in split.shards)
        if shard.file in present
    ]
    findings: list[Finding] = []
    intact: dict[str, ShardCheck] = {}
    keys = _Keys()
    records = 0

    def read(item: tuple[int, Shard]) -> ShardCheck:
        number, shard = item
        return check_shard(store, shard, number, present, check, sides_by_name.get(naming.index_name(shard.file)))

    for (_, shard), result in zip(shards, pool.map(read, shards), strict=True):
        findings += result.findings
        records += result.records
        if result.intact:
            keys.add(result.entries)
            intact[shard.file] = result
    findings += _class_counts(store, manifest, intact)
    findings += _duplicates(store, manifest, present, keys)
    named = {finding.file for finding in findings}  # an index with a wrong line needs no second finding
    sides = [file for file in manifest.files if present.get(file.file) == file.bytes and file.file not in named]
    for damage in pool.map(lambda file: _side_file(store, file), sides):
        findings += damage
        named |= {finding.file for finding in damage}
    findings += _rejects(store, manifest, [file for file in sides if file.file not in named])
    return findings, records


def _class_counts(store: Store, manifest: Manifest, intact: Mapping[str, ShardCheck]) -> Iterator[Finding]:
    for name, split in manifest.splits.items():
        if not all(shard.file in intact for shard in split.shards):
            continue
        counts = sum((intact[shard.file].class_counts for shard in split.shards), Counter[int]())
        for index, label in enumerate(manifest.classes):
            if counts[index] != split.class_counts[label]:
                what = f"class_counts of {clip(label)} in {name}"
                yield Finding(
                    naming.MANIFEST, None, what, f"{counts[index]} as in the shards", f"{split.class_counts[label]}",
                    restore(naming.MANIFEST, store.url),
                )  # fmt: skip


class _Keys:
    """Entries of every record, 24 bytes each, in buckets by hash."""

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(_BUCKETS)]

    def add(self, entries: bytes) -> None:
        for at in range(0, len(entries), ENTRY):
            self._buckets[entries[at]] += entries[at : at + ENTRY]

    def duplicates(self) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of entries with equal hashes."""
        for bucket in self._buckets:
            entries = sorted(bytes(bucket[at : at + ENTRY]) for at in range(0, len(bucket), ENTRY))
            for first, second in pairwise(entries):
                if first[:12] == second[:12]:
                    yield first, second


def _duplicates(store: Store, manifest: Manifest, present: Mapping[str, int], keys: _Keys) -> list[Finding]:
    files = [shard.file for split in manifest.splits.values() for shard in split.shards]
    findings: list[Finding] = []
    remedy = rebuild(store.url)
    total = 0
    for pair in keys.duplicates():
        total += 1
        if total > _MAX_DUPLICATES:
            continue
        (number, offset), (other_number, other_offset) = entry_place(pair[0]), entry_place(pair[1])
        file, other = files[number], files[other_number]
        key = _key_at(store, other, present[other], other_offset)
        found = f"{clip(key)} here and in {file} at byte {offset}"
        findings.append(Finding(other, other_offset, "key", "keys that occur once", found, remedy))
    findings.sort(key=lambda finding: (finding.file, finding.offset))
    if total > _MAX_DUPLICATES:
        found = f"{total - _MAX_DUPLICATES} more keys that occur twice"
        findings.append(Finding(naming.MANIFEST, None, "key", "keys that occur once", found, remedy))
    return findings


def _key_at(store: Store, name: str, size: int, offset: int) -> bytes:
    with open_file(store, name, size) as file:
        file.seek(offset)
        _, data = next(scan(file))
    return bytes(decode_example(data)["key"][0])  # type: ignore[arg-type]


def _side_file(store: Store, side: SideFile) -> list[Finding]:
    remedy = restore(side.file, store.url)
    try:
        with open_file(store, side.file, side.bytes) as file:
            _, crc = crc32c_file(file)
    except NotFoundError:
        return [Finding(side.file, None, "file", f"{side.bytes} bytes", "no file", remedy)]
    if to_hex(crc) != side.crc32c:
        return [Finding(side.file, None, "crc32c", side.crc32c, to_hex(crc), remedy)]
    return []


def _rejects(store: Store, manifest: Manifest, sides: Iterable[SideFile]) -> list[Finding]:
    """Lines of the rejects files by reason, against the manifest's counts; only when all of the files are there."""
    wanted = [file for file in manifest.files if naming.is_rejects(file.file)]
    present = [file for file in sides if naming.is_rejects(file.file)]
    if len(present) < len(wanted):
        return []
    remedy = rebuild(store.url)
    counts: Counter[str] = Counter()
    for side in present:
        offset = 0
        with open_file(store, side.file, side.bytes) as file:
            for line in file:
                try:
                    counts[json.loads(line)["reason"]] += 1
                except (ValueError, KeyError, TypeError):
                    expected = 'one JSON object a line with "key", "reason" and "detail"'
                    return [Finding(side.file, offset, "line", expected, clip(line), remedy)]
                offset += len(line)
    if counts != Counter(manifest.rejected):
        expected, found = _counts_text(counts), _counts_text(manifest.rejected)
        return [Finding(naming.MANIFEST, None, "rejected", f"{expected} as in the rejects files", found, remedy)]
    return []


def _counts_text(counts: Mapping[str, int]) -> str:
    shown = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count)
    return shown or "none"
