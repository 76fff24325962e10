"""Writes a complete tiny dataset without Beam, and remembers what it wrote.

Everything on disk goes through the format's own modules, so that a reader under test meets what a build makes: several
shards a split, several blocks a shard, indexes, class list, manifest last. Blocks close after a few records instead of
a megabyte; nothing else differs.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import encode_example
from shardfeed.format.manifest import ImageInfo, Manifest, Shard, SideFile, Split
from shardfeed.format.tfrecord import frame

CLASSES = ("daisy", "rose", "tulip")


@dataclass(frozen=True)
class Record:
    """One written record. ``pixels``: uint8 [height, width, channels] as drawn, before a lossy codec; ``image``: as stored."""

    key: bytes
    label: int
    image: bytes
    pixels: np.ndarray


@dataclass(frozen=True)
class Written:
    """What ``write_dataset`` wrote: records of each split in shard order."""

    path: Path
    manifest: Manifest
    records: Mapping[str, Sequence[Record]]


def write_dataset(
    path: Path,
    *,
    splits: Mapping[str, int] | None = None,
    image_format: str = "jpeg",
    size: tuple[int, int] | None = (8, 12),
    channels: int = 3,
    classes: Sequence[str] = CLASSES,
    shards: int = 3,
    block_records: int = 4,
    seed: int = 0,
) -> Written:
    """Write a dataset into ``path``. ``splits``: records by name; ``size``: (height, width), None = it varies by record."""
    path.mkdir(parents=True, exist_ok=True)
    files: list[SideFile] = []
    records = {
        name: [_record(name, i, image_format, size, channels, classes, seed) for i in range(count)]
        for name, count in (splits or {"train": 37, "validation": 10}).items()
    }
    written = {
        name: _write_split(path, name, of, classes, shards, block_records, files) for name, of in records.items()
    }
    files.append(_write_file(path, naming.CLASSES, "".join(f"{name}\n" for name in classes).encode()))
    total = sum(map(len, records.values()))
    manifest = Manifest(
        fingerprint="0123456789abcdef0123456789abcdef",
        config={"image_format": image_format, "seed": seed},
        versions={"shardfeed": "test"},
        classes=tuple(classes),
        listing={"digest": "00", "by_class": {}},
        listed=total,
        written=total,
        rejected={},
        skipped={},
        fixes={},
        image=ImageInfo(
            height=size[0] if size else None,
            width=size[1] if size else None,
            channels=channels,
            format=image_format,
            mean=(127.5,) * channels,
            std=(64.25,) * channels,
        ),
        splits=written,
        files=tuple(sorted(files, key=lambda file: file.file)),
    )
    (path / naming.MANIFEST).write_bytes(manifest.to_json())
    return Written(path, manifest, records)


def encode(pixels: np.ndarray, image_format: str) -> bytes:
    """Image bytes as a build stores them (jpeg and webp at quality 95; raw = the pixels in C order)."""
    if image_format == "raw":
        return pixels.tobytes()
    out = io.BytesIO()
    options = {} if image_format == "png" else {"quality": 95}
    Image.fromarray(pixels.squeeze(axis=2) if pixels.shape[2] == 1 else pixels).save(out, image_format, **options)
    return out.getvalue()


def _record(
    split: str,
    index: int,
    image_format: str,
    size: tuple[int, int] | None,
    channels: int,
    classes: Sequence[str],
    seed: int,
) -> Record:
    random = np.random.default_rng([seed, index, *split.encode()])
    height, width = size or (8 + index % 3, 12 - index % 2)
    # Smooth, as a photo is: a codec changes it little.
    corners = random.integers(0, 256, (2, 2, channels)).astype(float)
    y, x = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    top, bottom = ((1 - x) * row[0] + x * row[1] for row in corners)
    pixels = ((1 - y) * top + y * bottom).round().astype(np.uint8)
    label = int(random.integers(len(classes))) if index >= len(classes) else index  # no class without a record
    key = f"{split}/{classes[label]}/{index:05d}.jpg".encode()
    return Record(key, label, encode(pixels, image_format), pixels)


def _example(record: Record, classes: Sequence[str]) -> bytes:
    return encode_example(
        {
            "image": record.image,
            "class": record.label,
            "label": classes[record.label].encode(),
            "size": list(record.pixels.shape[:2]),
            "key": record.key,
        }
    )


def _write_split(
    path: Path, name: str, records: Sequence[Record], classes: Sequence[str], shards: int, block_records: int,
    files: list[SideFile],
) -> Split:  # fmt: skip
    shards = min(shards, len(records))
    ends = [len(records) * i // max(shards, 1) for i in range(shards + 1)]
    out = []
    for index in range(shards):
        framed = [frame(_example(record, classes)) for record in records[ends[index] : ends[index + 1]]]
        sizes = [len(data) for data in framed]
        data, file = b"".join(framed), naming.shard_name(name, index, shards)
        (path / file).write_bytes(data)
        lines = "".join(f"{sum(sizes[:i])} {size}\n" for i, size in enumerate(sizes))
        files.append(_write_file(path, naming.index_name(file), lines.encode()))
        blocks = [sizes[i : i + block_records] for i in range(0, len(sizes), block_records)]
        out.append(
            Shard(
                file, len(sizes), len(data), to_hex(crc32c(data)), tuple((len(block), sum(block)) for block in blocks)
            )
        )
    counts = {label: sum(record.label == i for record in records) for i, label in enumerate(classes)}
    return Split(len(records), sum(shard.bytes for shard in out), counts, tuple(out))


def _write_file(path: Path, name: str, data: bytes) -> SideFile:
    (path / name).write_bytes(data)
    return SideFile(name, len(data), to_hex(crc32c(data)))
