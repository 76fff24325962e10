"""A dataset of a few kilobytes, made without Beam: every record, block and file of it is known to
the tests.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import encode_example
from shardfeed.format.manifest import ImageInfo, Manifest, Shard, SideFile, Split
from shardfeed.format.tfrecord import frame
from shardfeed.transforms.publish.tfds_files import tfds_files

CLASSES = ("daisy", "rose", "tulip")


def image_bytes(number: int, *, height: int = 8, width: int = 12, format: str = "jpeg", channels: int = 3) -> bytes:
    """One small image; every ``number`` gives another."""
    colour = ((number * 53) % 256, (number * 101) % 256, (number * 199) % 256)
    picture = Image.new("RGB", (width, height), colour)
    picture.putpixel((number % width, 0), (255, 255, 255))
    if channels == 1:
        picture = picture.convert("L")
    if format == "raw":
        return picture.tobytes()
    out = io.BytesIO()
    picture.save(out, format)
    return out.getvalue()


def columns(number: int, **image: Any) -> dict[str, Any]:
    """The columns of the ``number``-th example."""
    height, width = image.get("height", 8), image.get("width", 12)
    name = CLASSES[number % len(CLASSES)]
    return {
        "image": image_bytes(number, **image),
        "class": number % len(CLASSES),
        "label": name.encode(),
        "size": [height, width],
        "key": f"{name}/{number:03d}.jpg".encode(),
    }


@dataclass
class Tiny:
    """``shards``: by split, by shard, by record the columns. ``rejects``: (key, reason)."""

    shards: dict[str, list[list[dict[str, Any]]]]
    rejects: Sequence[tuple[str, str]] = (("rose/bad.jpg", "CORRUPT"), ("rose/none.jpg", "EMPTY"))
    image: ImageInfo = field(
        default_factory=lambda: ImageInfo(8, 12, 3, "jpeg", (100.0, 110.0, 120.0), (50.0, 51.0, 52.0))
    )
    block_records: int = 2
    class_counts: dict[str, dict[str, int]] | None = None

    def write(self, out: Path) -> Manifest:
        """Everything, the manifest last."""
        out.mkdir(parents=True)
        splits = {name: self._split(out, name, shards) for name, shards in self.shards.items()}
        lines = [json.dumps({"key": key, "reason": reason, "detail": "…"}) + "\n" for key, reason in self.rejects]
        side = {
            naming.CLASSES: "".join(name + "\n" for name in CLASSES).encode(),
            naming.rejects_name(0, 1): "".join(lines).encode(),
            **tfds_files(name="tiny", classes=CLASSES, splits=splits, image=self.image),
        }
        for name, data in side.items():
            (out / name).write_bytes(data)
        names = [*side, *(naming.index_name(shard.file) for split in splits.values() for shard in split.shards)]
        written = sum(split.records for split in splits.values())
        manifest = Manifest(
            fingerprint="00" * 16,
            config={"image": {"height": 8, "width": 12}, "seed": 0},
            versions={"encoder": "1"},
            classes=CLASSES,
            listing={"digest": "11" * 16, "by_class": {}},
            listed=written + len(self.rejects) + 1,
            written=written,
            rejected=dict(Counter(reason for _, reason in self.rejects)),
            skipped={"HIDDEN": 1},
            fixes={"upright": 2},
            image=self.image,
            splits=splits,
            files=tuple(
                SideFile(name, len(data), to_hex(crc32c(data)))
                for name in sorted(names)
                for data in [(out / name).read_bytes()]
            ),
        )
        (out / naming.MANIFEST).write_bytes(manifest.to_json())
        return manifest

    def _split(self, out: Path, name: str, shards: list[list[dict[str, Any]]]) -> Split:
        made = [self._shard(out, naming.shard_name(name, i, len(shards)), rows) for i, rows in enumerate(shards)]
        counts = (self.class_counts or {}).get(name)
        if counts is None:
            labels = Counter(row["label"].decode() for rows in shards for row in rows)
            counts = {label: labels[label] for label in CLASSES}
        return Split(sum(s.records for s in made), sum(s.bytes for s in made), counts, tuple(made))

    def _shard(self, out: Path, name: str, rows: list[dict[str, Any]]) -> Shard:
        frames = [frame(row["raw"] if "raw" in row else encode_example(row)) for row in rows]
        data = b"".join(frames)
        offsets = [sum(map(len, frames[:i])) for i in range(len(frames))]
        index = "".join(f"{at} {len(framed)}\n" for at, framed in zip(offsets, frames, strict=True))
        (out / name).write_bytes(data)
        (out / naming.index_name(name)).write_bytes(index.encode())
        step = self.block_records
        blocks = tuple(
            (len(part), sum(map(len, part))) for part in (frames[i : i + step] for i in range(0, len(frames), step))
        )
        return Shard(name, len(rows), len(data), to_hex(crc32c(data)), blocks)


def tiny() -> Tiny:
    """Two splits: three train shards of five records and one test shard of four."""
    return Tiny(
        {
            "train": [[columns(5 * shard + row) for row in range(5)] for shard in range(3)],
            "test": [[columns(15 + row) for row in range(4)]],
        }
    )
