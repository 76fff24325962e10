"""Deep verification: each shard and side file in a pool, then consistency between them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from itertools import pairwise

import numpy as np

from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c_file, to_hex
from shardfeed.format.example import decode_example
from shardfeed.format.manifest import Manifest, SideFile
from shardfeed.format.tfrecord import scan
from shardfeed.storage.base import NotFoundError, Store
from shardfeed.storage.stored_file import open_file
from shardfeed.verification.record import RecordCheck
from shardfeed.verification.record_files import check_indexes, files_beside
from shardfeed.verification.report import Finding, no_file, rebuild, restore
from shardfeed.verification.shard import ShardCheck, check_shard
from shardfeed.words import by_count

_MAX_DUPLICATES = 10


def verify_deep(
    store: Store, manifest: Manifest, present: Mapping[str, int], pool: Executor
) -> tuple[list[Finding], int]:
    """Findings that sizes cannot show, and the number of records read.

    ``present``: bytes by name of the files that were found.
    """
    check = RecordCheck(manifest)
    shards = [shard for split in manifest.splits.values() for shard in split.shards if shard.file in present]
    findings: list[Finding] = []
    intact: dict[str, ShardCheck] = {}
    records = 0

    beside = files_beside(manifest)
    wrong = {file.file for file in manifest.files if present.get(file.file) != file.bytes}
    whole = {name: size for name, size in present.items() if name not in wrong}
    checked = pool.map(lambda shard: check_shard(store, shard, beside[shard.file], present, check, whole), shards)
    for shard, result in zip(shards, checked, strict=True):
        findings += result.findings
        records += len(result.offsets)
        if result.intact:
            intact[shard.file] = result
    findings += check_indexes(
        store, manifest, {name: size for name, size in whole.items() if name not in _named(findings)}
    )
    findings += _class_counts(store, manifest, intact)
    findings += _duplicates(store, present, intact)
    named = _named(findings)  # an index with a wrong line needs no second finding
    sides = [file for file in manifest.files if present.get(file.file) == file.bytes and file.file not in named]
    for found in pool.map(lambda file: _side_file(store, file), sides):
        findings += found
        named |= {finding.file for finding in found}
    findings += _near_duplicates(store, manifest, [file for file in sides if file.file not in named])
    findings += _rejects(store, manifest, [file for file in sides if file.file not in named])
    return findings, records


def _named(findings: Iterable[Finding]) -> set[str]:
    return {finding.file for finding in findings}


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


def _duplicates(store: Store, present: Mapping[str, int], intact: Mapping[str, ShardCheck]) -> list[Finding]:
    """Keys that occur twice. Equal hashes of 64 bits name candidates, whose keys are then compared.

    Two of 100 M different keys have the same 64 bits with a probability of 3e-4.
    """
    by_file = {name: np.frombuffer(check.hashes, np.uint64) for name, check in intact.items()}
    hashes = np.concatenate([np.empty(0, np.uint64), *by_file.values()])
    hashes.sort()
    equal = hashes[1:][hashes[1:] == hashes[:-1]]
    shown = np.unique(equal)[:_MAX_DUPLICATES]
    places: dict[int, list[tuple[str, int]]] = {value: [] for value in shown.tolist()}
    for name, found in by_file.items():
        for number in np.flatnonzero(np.isin(found, shown)).tolist():
            places[int(found[number])].append((name, intact[name].offsets[number]))
    pairs = [pair for same in places.values() for pair in pairwise(same)][:_MAX_DUPLICATES]
    remedy = rebuild(store.url)
    findings = []
    for (first, first_offset), (name, offset) in pairs:
        key = _key_at(store, name, present[name], offset)
        if key == _key_at(store, first, present[first], first_offset):
            where = f"{clip(key)} here and in {first} at byte {first_offset}"
            findings.append(Finding(name, offset, "key", "keys that occur once", where, remedy))
    findings.sort(key=lambda finding: (finding.file, finding.offset))
    if more := len(equal) - len(pairs):
        many = f"{more} more keys that occur twice"
        findings.append(Finding(naming.MANIFEST, None, "key", "keys that occur once", many, remedy))
    return findings


def _key_at(store: Store, name: str, size: int, offset: int) -> bytes:
    with open_file(store, name, size, offset) as file:
        _, data = next(scan(file))
    return bytes(decode_example(data)["key"][0])


def _side_file(store: Store, side: SideFile) -> list[Finding]:
    try:
        with open_file(store, side.file, side.bytes) as file:
            _, crc = crc32c_file(file)
    except NotFoundError:
        return [no_file(side.file, side.bytes, store.url)]
    if to_hex(crc) != side.crc32c:
        return [Finding(side.file, None, "crc32c", side.crc32c, to_hex(crc), restore(side.file, store.url))]
    return []


def _near_duplicates(store: Store, manifest: Manifest, sides: Iterable[SideFile]) -> list[Finding]:
    """Compares the manifest's counts of duplicates with the file that lists them."""
    counts = manifest.duplicates
    side = next((file for file in sides if file.file == naming.DUPLICATES), None)
    if side is None or counts is None:
        return []
    groups: dict[int, int] = {}
    offset = 0
    with open_file(store, side.file, side.bytes) as file:
        for line in file:
            try:
                edge = json.loads(line)
                groups[edge["group"]] = edge["images"]
            except (ValueError, KeyError, TypeError):
                expected = 'one JSON object per line with "group", "images", "keys", "labels" and "splits"'
                return [Finding(side.file, offset, "line", expected, clip(line), rebuild(store.url))]
            offset += len(line)
    found = {"groups": len(groups), "pairs": sum(groups.values()) - len(groups)}
    stated = {name: counts.get(name) for name in found}
    if found != stated:
        expected = f"{found} as in {side.file}"
        return [
            Finding(naming.MANIFEST, None, "duplicates", expected, clip(stated), restore(naming.MANIFEST, store.url))
        ]
    return []


def _rejects(store: Store, manifest: Manifest, sides: Iterable[SideFile]) -> list[Finding]:
    """Compares the manifest's counts by reason with the rejects files, if all are there."""
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
                    expected = 'one JSON object per line with "key", "reason" and "detail"'
                    return [Finding(side.file, offset, "line", expected, clip(line), remedy)]
                offset += len(line)
    if counts != Counter(manifest.rejected):
        expected, found = by_count(counts) or "none", by_count(manifest.rejected) or "none"
        return [Finding(naming.MANIFEST, None, "rejected", f"{expected} as in the rejects files", found, remedy)]
    return []
