"""``manifest.json``: a dataset exists if and only if this file exists, and it names everything that belongs to it.

Canonical JSON (sorted keys, UTF-8, no spaces, one newline at the end), so that equal datasets have equal manifests. It is
input from outside when a trainer opens it: every field is checked, file names must be names that our format makes, and an
unknown ``schema_version`` is refused rather than half read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardfeed import naming
from shardfeed.errors import DatasetError, clip

SCHEMA_VERSION = 1
MAX_BYTES = 256 << 20  # a manifest above this is not one of ours: 100 M images in 50 k shards need about 60 MB
BLOCK_BYTES = 1_000_000  # bytes at which a block closes: the reader's unit of shuffling and seeking


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard file: ``crc32c`` as 8 hex digits; ``blocks`` = (records, bytes) in file order, summing to the file."""

    file: str
    records: int
    bytes: int
    crc32c: str
    blocks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Split:
    """One split: totals over its shards, and records by class name (every class, zeros included)."""

    records: int
    bytes: int
    class_counts: Mapping[str, int]
    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file of the dataset that is not a shard."""

    file: str
    bytes: int
    crc32c: str


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """Stored images. ``height``/``width`` in pixels, None when they vary; ``mean``/``std`` a channel, of pixels 0-255."""

    height: int | None
    width: int | None
    channels: int
    format: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything ``manifest.json`` says. Reject, skip and fix counts are by name."""

    fingerprint: str
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    classes: tuple[str, ...]
    listing: Mapping[str, Any]
    listed: int
    written: int
    rejected: Mapping[str, int]
    skipped: Mapping[str, int]
    fixes: Mapping[str, int]
    image: ImageInfo
    splits: Mapping[str, Split]
    files: tuple[SideFile, ...]

    def to_json(self) -> bytes:
        """Canonical bytes."""
        return canonical_json(
            {
                "schema_version": SCHEMA_VERSION,
                "fingerprint": self.fingerprint,
                "config": self.config,
                "versions": self.versions,
                "classes": self.classes,
                "listing": self.listing,
                "listed": self.listed,
                "written": self.written,
                "rejected": {"total": sum(self.rejected.values()), "by_reason": self.rejected},
                "skipped": {"total": sum(self.skipped.values()), "by_reason": self.skipped},
                "fixes": self.fixes,
                "image": _plain(self.image),
                "splits": {
                    name: {
                        "records": split.records,
                        "bytes": split.bytes,
                        "class_counts": split.class_counts,
                        "shards": [_plain(shard) for shard in split.shards],
                    }
                    for name, split in self.splits.items()
                },
                "files": [_plain(file) for file in self.files],
            }
        )


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys, no spaces, one newline at the end; NaN and infinity are refused."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def parse_manifest(data: bytes, where: str) -> Manifest:
    """The manifest in ``data``; ``where`` names it in errors.

    Raises:
        DatasetError: not JSON, unknown version, or a field that cannot be.
    """
    try:
        raw = json.loads(data)
    except ValueError as error:
        raise DatasetError(
            f"{where} is damaged: not JSON ({error}). Restore the file from a copy, or build the dataset again."
        ) from None
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise DatasetError(
            f"{where} has schema_version {clip(version)}; this shardfeed reads version {SCHEMA_VERSION}. "
            "Install the shardfeed that wrote it, or build the dataset again."
        )
    try:
        manifest = _from_raw(raw)
        _check(manifest, raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(
            f"{where} is damaged: {clip(repr(error))}. Restore the file from a copy, or build the dataset again."
        ) from None
    return manifest


def _plain(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _from_raw(raw: dict[str, Any]) -> Manifest:
    image = raw["image"]
    return Manifest(
        fingerprint=str(raw["fingerprint"]),
        config=dict(raw["config"]),
        versions=dict(raw["versions"]),
        classes=tuple(map(str, raw["classes"])),
        listing=dict(raw["listing"]),
        listed=int(raw["listed"]),
        written=int(raw["written"]),
        rejected=_counts(raw["rejected"]["by_reason"]),
        skipped=_counts(raw["skipped"]["by_reason"]),
        fixes=_counts(raw["fixes"]),
        image=ImageInfo(
            height=image["height"],
            width=image["width"],
            channels=int(image["channels"]),
            format=str(image["format"]),
            mean=tuple(map(float, image["mean"])),
            std=tuple(map(float, image["std"])),
        ),
        splits={name: _split(split) for name, split in raw["splits"].items()},
        files=tuple(SideFile(str(f["file"]), int(f["bytes"]), str(f["crc32c"])) for f in raw["files"]),
    )


def _split(raw: dict[str, Any]) -> Split:
    return Split(
        records=int(raw["records"]),
        bytes=int(raw["bytes"]),
        class_counts=_counts(raw["class_counts"]),
        shards=tuple(
            Shard(
                file=str(shard["file"]),
                records=int(shard["records"]),
                bytes=int(shard["bytes"]),
                crc32c=str(shard["crc32c"]),
                blocks=tuple((int(records), int(size)) for records, size in shard["blocks"]),
            )
            for shard in raw["shards"]
        ),
    )


def _counts(raw: dict[str, Any]) -> dict[str, int]:
    counts = {str(name): int(count) for name, count in raw.items()}
    if any(count < 0 for count in counts.values()):
        raise ValueError("a count is negative")
    return counts


def _check(manifest: Manifest, raw: dict[str, Any]) -> None:
    for name, split in manifest.splits.items():
        if not naming.SPLIT_NAME.fullmatch(name):
            raise ValueError(f"split name {clip(name)}")
        for shard in split.shards:
            if not naming.is_shard(shard.file):
                raise ValueError(f"shard name {clip(shard.file)}")
            if shard.records < 1 or (
                (shard.records, shard.bytes) != (sum(r for r, _ in shard.blocks), sum(b for _, b in shard.blocks))
            ):
                raise ValueError(f"blocks of {shard.file} do not add up to {shard.records} records, {shard.bytes} bytes")
        if (split.records, split.bytes) != (sum(s.records for s in split.shards), sum(s.bytes for s in split.shards)):
            raise ValueError(f"shards of {name} do not add up to {split.records} records, {split.bytes} bytes")
        if sum(split.class_counts.values()) != split.records or set(split.class_counts) - set(manifest.classes):
            raise ValueError(f"class_counts of {name} do not add up to {split.records} records of the dataset's classes")
    for file in manifest.files:
        if not naming.is_ours(file.file) or "/" in file.file:
            raise ValueError(f"file name {clip(file.file)}")
    total = manifest.written + sum(manifest.rejected.values()) + sum(manifest.skipped.values())
    if manifest.listed != total or raw["rejected"]["total"] != sum(manifest.rejected.values()):
        raise ValueError(f"listed {manifest.listed} is not written + rejected + skipped = {total}")
