"""``manifest.json``: a dataset exists if and only if this file does; it names all others.

It is canonical JSON (sorted keys, UTF-8, no spaces, one newline at the end), so that equal datasets
have equal manifests. To a trainer it is input from outside: every field is checked, file names must
be names that our format makes, and an unknown ``schema_version`` is refused rather than half read.
Damage of any kind ends in a ``DatasetError``. Version 1 has no tables, and none of the fields
behind them; they are read as their defaults.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn, TypeVar

from shardfeed.errors import DatasetError, clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.columns import Column
from shardfeed.no_gc import no_gc

SCHEMA_VERSION = 2
_READABLE = (1, SCHEMA_VERSION)
MAX_BYTES = 256 << 20  # a manifest above this is not one of ours: 100 M images in 50 k shards need about 60 MB
BLOCK_BYTES = 1_000_000  # bytes at which a block closes: the reader's unit of shuffling and seeking
FORMATS = ("jpeg", "png", "webp", "raw")
LABEL_KINDS = ("single", "multi", "none")

_HEX = re.compile("[0-9a-f]+")
_MAX_INT = (1 << 63) - 1  # sizes and offsets are int64 wherever they go next
_KINDS: dict[type, str] = {dict: "an object", list: "an array", str: "a string"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard file.

    ``crc32c``: 8 hex digits. ``blocks``: (records, bytes) in file order; they sum to the file.
    """

    file: str
    records: int
    bytes: int
    crc32c: str
    blocks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Split:
    """One split: totals over its shards, and records per class name (zeros included).

    If records have several labels, they are counted for each of them.
    """

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
class RecordTable:
    """The record table of a shard, by value: its rows and their digest (32 hex digits).

    Its bytes are not fixed: they depend on the release of pyarrow.
    """

    file: str
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """Stored images.

    ``height``, ``width``: pixels, None when they vary. ``mean``, ``std``: per channel, of pixels
    0-255.
    """

    height: int | None
    width: int | None
    channels: int
    format: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything ``manifest.json`` says. Rejects, skips and fixes are counts per name.

    ``columns``: extra columns of the records, each as ``Column.to_raw``. ``label_kind``: how many
    labels a record has: one, any number, or none at all. ``duplicates``: what is known of
    near-duplicate images; None: they were not looked for. ``formats``: of sources that the build
    could decode, in lower case. ``schema_version``: of the file that was read.
    """

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
    tables: tuple[RecordTable, ...] = ()
    columns: tuple[Mapping[str, Any], ...] = ()
    label_kind: str = "single"
    duplicates: Mapping[str, Any] | None = None
    formats: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> bytes:
        """Canonical bytes."""
        return canonical_json(
            {
                **{name: value for name, value in _fields(self).items() if self.schema_version > 1 or name not in _NEW},
                "rejected": {"total": sum(self.rejected.values()), "by_reason": self.rejected},
                "skipped": {"total": sum(self.skipped.values()), "by_reason": self.skipped},
            }
        )


# Fields since version 2, as version 1 means them.
_NEW: Mapping[str, Any] = {"tables": [], "columns": [], "label_kind": "single", "duplicates": None, "formats": []}


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys, no spaces, one newline at the end; NaN and infinity are refused.

    ``value`` may hold the dataclasses above.
    """
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_fields
    )
    return text.encode() + b"\n"


def sealed_json(record: Mapping[str, Any]) -> bytes:
    """Canonical JSON of ``record`` with its checksum added as ``crc32c``."""
    return canonical_json({**record, "crc32c": to_hex(crc32c(canonical_json(record)))})


@no_gc()
def parse_manifest(data: bytes, where: str) -> Manifest:
    """The manifest in ``data``; ``where`` names it in errors.

    Raises:
        DatasetError: not JSON, an unknown version, or an impossible field.
    """
    remedy = "Restore the file from a copy, or build the dataset again."
    if len(data) > MAX_BYTES:
        raise DatasetError(f"{where} is damaged: {len(data)} bytes, at most {MAX_BYTES} are allowed. {remedy}")
    try:
        raw = json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where} is damaged: not JSON ({clip(error)}). {remedy}") from None
    try:
        version = _object(raw)["schema_version"]
        if type(version) is not int or version not in _READABLE:
            shown = clip(version) if isinstance(version, (int, float, str)) else type(version).__name__
            raise DatasetError(
                f"{where} has schema_version {shown}; this shardfeed reads versions {_READABLE[0]} and {_READABLE[1]}. "
                "Install the shardfeed that wrote it, or build the dataset again."
            )
        manifest = _from_raw(raw, version)
        _check(manifest, raw)
    except KeyError as error:
        raise DatasetError(f"{where} is damaged: {clip(error.args[0])} is missing. {remedy}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise DatasetError(f"{where} is damaged: {clip(error)}. {remedy}") from None
    return manifest


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _from_raw(raw: dict[str, Any], version: int) -> Manifest:
    if version == 1:
        raw = {**raw, **_NEW}
    return Manifest(
        fingerprint=_hex("fingerprint", raw["fingerprint"], 32),
        config=_object(raw["config"]),
        versions={name: _text(version) for name, version in _object(raw["versions"]).items()},
        classes=tuple(map(_text, _array(raw["classes"]))),
        listing=_listing(raw["listing"]),
        listed=_int(raw["listed"]),
        written=_int(raw["written"]),
        rejected=_counts(raw["rejected"]["by_reason"]),
        skipped=_counts(raw["skipped"]["by_reason"]),
        fixes=_counts(raw["fixes"]),
        image=_image(raw["image"]),
        splits={_text(name): _split(split) for name, split in _object(raw["splits"]).items()},
        files=tuple(
            SideFile(_text(file["file"]), _int(file["bytes"]), _hex("crc32c", file["crc32c"], 8))
            for file in _array(raw["files"])
        ),
        tables=tuple(
            RecordTable(_text(table["file"]), _int(table["rows"], least=1), _hex("digest", table["digest"], 32))
            for table in _array(raw["tables"])
        ),
        columns=tuple(map(_object, _array(raw["columns"]))),
        label_kind=_text(raw["label_kind"]),
        duplicates=None if raw["duplicates"] is None else _object(raw["duplicates"]),
        formats=tuple(map(_text, _array(raw["formats"]))),
        schema_version=version,
    )


def _listing(raw: Any) -> dict[str, Any]:
    """``digest``, and (images, bytes) per class and per split and class.

    A later build tells from them what changed. Empty for a dataset that was made without a listing.
    """
    _hex("listing digest", _object(raw).get("digest", "0"))
    for cells in (raw.get("by_class", {}), *_object(raw.get("by_split", {})).values()):
        for cell in _object(cells).values():
            if len(_array(cell)) != 2:
                raise ValueError("a class of the listing is not a pair of images and bytes")
            for number in cell:
                _int(number)
    return dict(raw)


def _image(raw: dict[str, Any]) -> ImageInfo:
    return ImageInfo(
        height=None if raw["height"] is None else _int(raw["height"], least=1),
        width=None if raw["width"] is None else _int(raw["width"], least=1),
        channels=_int(raw["channels"]),
        format=_text(raw["format"]),
        mean=tuple(map(_number, _array(raw["mean"]))),
        std=tuple(map(_number, _array(raw["std"]))),
    )


def _split(raw: dict[str, Any]) -> Split:
    return Split(
        records=_int(raw["records"]),
        bytes=_int(raw["bytes"]),
        class_counts=_counts(raw["class_counts"]),
        shards=tuple(
            Shard(
                file=_text(shard["file"]),
                records=_int(shard["records"], least=1),
                bytes=_int(shard["bytes"]),
                crc32c=_hex("crc32c", shard["crc32c"], 8),
                blocks=_blocks(shard["blocks"]),
            )
            for shard in _array(raw["shards"])
        ),
    )


def _blocks(raw: Any) -> tuple[tuple[int, int], ...]:
    """Checks all blocks of a shard at once: a call per block was half of the time of ``info``."""
    blocks = tuple(map(tuple, _array(raw)))
    numbers = list(itertools.chain.from_iterable(blocks))
    if set(map(len, blocks)) - {2}:
        raise ValueError("a block is not a pair of records and bytes")
    if set(map(type, numbers)) - {int} or (numbers and not 1 <= min(numbers) <= max(numbers) <= _MAX_INT):
        for number in numbers:
            _int(number, least=1)  # says which
    return blocks


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where {_KINDS[kind]} is expected")
    return value


def _object(value: Any) -> dict[str, Any]:
    return _kind(dict, value)


def _array(value: Any) -> list[Any]:
    return _kind(list, value)


def _text(value: Any) -> str:
    _kind(str, value).encode()  # a lone surrogate is a ValueError here, not a crash in whoever prints it
    return str(value)


def _int(value: Any, *, least: int = 0) -> int:
    if type(value) is not int:  # JSON's true is an int in Python
        raise TypeError(f"{type(value).__name__} where an integer is expected")
    if not least <= value <= _MAX_INT:
        raise ValueError(f"number {value}, allowed are {least} to 2**63 - 1")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError(f"{clip(value)} where a finite number is expected")
    return float(value)


def _hex(what: str, value: Any, digits: int | None = None) -> str:
    if not _HEX.fullmatch(_text(value)) or digits not in (None, len(value)):
        raise ValueError(f"{what} {clip(value)} is not {f'{digits} ' if digits else ''}lower-case hex digits")
    return str(value)


def _counts(raw: Any) -> dict[str, int]:
    return {_text(name): _int(count) for name, count in _object(raw).items()}


def _check(manifest: Manifest, raw: dict[str, Any]) -> None:
    if manifest.label_kind not in LABEL_KINDS:
        raise ValueError(f"label_kind {clip(manifest.label_kind)}, allowed are {', '.join(LABEL_KINDS)}")
    if manifest.label_kind == "none" and manifest.classes:
        raise ValueError(f"{len(manifest.classes)} classes in a dataset without labels")
    if len(set(manifest.classes)) != len(manifest.classes):
        raise ValueError("a class is named twice")
    _check_image(manifest.image)
    for name, split in manifest.splits.items():
        _check_split(name, split, manifest.classes, manifest.label_kind)
    columns = [Column.from_raw(raw).name for raw in manifest.columns]
    if len(set(columns)) != len(columns):
        raise ValueError("a column is named twice")
    names = [file.file for file in manifest.files]
    for name in names:
        if not naming.is_published_name(name) or name in (naming.MANIFEST, naming.RUN):
            raise ValueError(f"file name {clip(name)}")
    for table in manifest.tables:
        if not naming.is_table(table.file):
            raise ValueError(f"table name {clip(table.file)}")
    names += [table.file for table in manifest.tables]
    names += [shard.file for split in manifest.splits.values() for shard in split.shards]
    if len(set(names)) != len(names):
        raise ValueError("a file is named twice")
    _check_totals(manifest, raw)


def _check_image(image: ImageInfo) -> None:
    if image.format not in FORMATS:
        raise ValueError(f"image format {clip(image.format)}, allowed are {', '.join(FORMATS)}")
    if image.channels not in (1, 3) or not len(image.mean) == len(image.std) == image.channels:
        raise ValueError(
            f"{image.channels} channels with {len(image.mean)} means and {len(image.std)} deviations; "
            "allowed are 1 or 3 channels with one of each per channel"
        )


def _check_split(name: str, split: Split, classes: tuple[str, ...], label_kind: str) -> None:
    if not naming.SPLIT_NAME.fullmatch(name):
        raise ValueError(f"split name {clip(name)}")
    for index, shard in enumerate(split.shards):
        if shard.file != (expected := naming.shard_name(name, index, len(split.shards))):
            raise ValueError(f"shard name {clip(shard.file)} where {expected} is expected")
        if (shard.records, shard.bytes) != (sum(r for r, _ in shard.blocks), sum(b for _, b in shard.blocks)):
            raise ValueError(f"blocks of {shard.file} do not add up to {shard.records} records, {shard.bytes} bytes")
    if (split.records, split.bytes) != (sum(s.records for s in split.shards), sum(s.bytes for s in split.shards)):
        raise ValueError(f"shards of {name} do not add up to {split.records} records, {split.bytes} bytes")
    counts = split.class_counts.values()
    fit = sum(counts) == split.records if label_kind == "single" else max(counts, default=0) <= split.records
    if not fit or set(split.class_counts) != set(classes):
        raise ValueError(f"class_counts of {name} do not add up to {split.records} records of the dataset's classes")


def _check_totals(manifest: Manifest, raw: dict[str, Any]) -> None:
    for what, counts in (("rejected", manifest.rejected), ("skipped", manifest.skipped)):
        if _int(raw[what]["total"]) != sum(counts.values()):
            raise ValueError(f"{what} by reason do not add up to {raw[what]['total']}")
    if manifest.written != (records := sum(split.records for split in manifest.splits.values())):
        raise ValueError(f"written {manifest.written} is not the {records} records of the splits")
    total = manifest.written + sum(manifest.rejected.values()) + sum(manifest.skipped.values())
    if manifest.listed != total:
        raise ValueError(f"listed {manifest.listed} is not written + rejected + skipped = {total}")
