"""Writes a complete small dataset by ``shardfeed.testing``, and remembers what it wrote.

Blocks close after a few records instead of a megabyte; nothing else differs from a build.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shardfeed import testing
from shardfeed.format.example import Value
from shardfeed.format.manifest import ImageInfo, Manifest
from shardfeed.transforms import stores

Pixels = NDArray[np.uint8]

CLASSES = ("daisy", "rose", "tulip")


@dataclass(frozen=True)
class Record:
    """One written record.

    ``pixels``: uint8 [height, width, channels] as drawn, before a lossy codec; ``image``: as
    stored.
    """

    key: bytes
    label: int
    image: bytes
    pixels: Pixels


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
    fingerprint: str = "0123456789abcdef0123456789abcdef",
) -> Written:
    """Write a dataset into ``path``.

    ``splits``: records by name; ``size``: (height, width), None = it varies by record.
    """
    records = {
        name: [_record(name, i, image_format, size, channels, classes, seed) for i in range(count)]
        for name, count in (splits or {"train": 37, "validation": 10}).items()
    }
    height, width = size or (None, None)
    manifest = testing.write_dataset(
        path,
        {name: [_columns(record, classes) for record in of] for name, of in records.items()},
        image=ImageInfo(height, width, channels, image_format, (127.5,) * channels, (64.25,) * channels),
        classes=tuple(classes),
        shards=shards,
        block_records=block_records,
        fingerprint=fingerprint,
        config={"image_format": image_format, "seed": seed},
    )
    return Written(path, manifest, records)


def upload(folder: Path, url: str) -> str:
    """Copies the files of ``folder`` to the bucket's ``url``, which it returns."""
    store = stores.open_output(url)
    for file in folder.iterdir():
        assert store.create(file.name, file.read_bytes())
    return url


def encode(pixels: Pixels, image_format: str) -> bytes:
    """Image bytes as a build stores them (jpeg and webp at quality 95; raw = the pixels in C
    order).
    """
    if image_format == "raw":
        return pixels.tobytes()
    out = io.BytesIO()
    options: dict[str, Any] = {} if image_format == "png" else {"quality": 95}
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
    # no class without a record
    label = int(random.integers(len(classes))) if index >= len(classes) else index
    key = f"{split}/{classes[label]}/{index:05d}.jpg".encode()
    return Record(key, label, encode(pixels, image_format), pixels)


def _columns(record: Record, classes: Sequence[str]) -> dict[str, Value]:
    return {
        "image": record.image,
        "class": record.label,
        "label": classes[record.label].encode(),
        "size": list(record.pixels.shape[:2]),
        "key": record.key,
    }
