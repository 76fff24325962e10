"""A small dataset for tests of your own training code: written in a moment, with neither Beam nor Pillow.

    from shardfeed.testing import make_dataset

    info = make_dataset(tmp_path, {"train": 100, "validation": 30})
    model.fit(shardfeed.load(info, "train", 10), steps_per_epoch=10)

The one decision: images are raw pixels, which need no codec, and all the rest is what a build writes, so that ``load``,
``array_batches``, ``inspect`` and ``verify --deep`` take it for a build's. How bright an image is tells its class, with noise
on top: a model that learns anything learns these.

Not for measuring: the images are tiny, and raw ones need no decoding.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shardfeed._version import __version__
from shardfeed.arguments import distinct_names, height_width, integer, positive
from shardfeed.dataset.info import DatasetInfo, info
from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import Value, encode_example
from shardfeed.format.hashing import key_hash
from shardfeed.format.manifest import ImageInfo, Manifest, Shard, SideFile, Split
from shardfeed.format.tfrecord import frame

_BLOCK = 16  # records; a build's block is a megabyte, and a test wants several
_NOISE = 64  # of 256 levels
_SPLITS = {"train": 60, "validation": 20}


def make_dataset(
    folder: str | os.PathLike[str],
    splits: Mapping[str, int] | None = None,
    *,
    classes: Sequence[str] = ("daisy", "rose", "tulip"),
    image_size: int | tuple[int, int] = 8,
    channels: int = 3,
    shards: int = 2,
    seed: int = 0,
) -> DatasetInfo:
    """Write a dataset of raw images into ``folder``, which is made, and say what ``shardfeed.info`` says of it.

    The same arguments write the same bytes. Record ``i`` of a split is of class ``i % len(classes)`` and has the key
    ``{split}/{class}/{i:05d}.png``.

    Args:
        folder: A local folder without a dataset.
        splits: Records by name of the split; by default 60 in "train" and 20 in "validation".
        classes: Names of the classes.
        image_size: Height and width (an int: both).
        channels: 3, or 1 for gray.
        shards: Shards a split, at most one a record.
        seed: Of the noise.

    Raises:
        UsageError: an argument that cannot be; a dataset is there already.
    """
    height, width = height_width("image_size", image_size)
    shards, seed = positive("shards", shards), integer("seed", seed)
    classes = distinct_names("classes", classes)
    if splits is not None and not isinstance(splits, Mapping):
        raise UsageError(f"splits={clip(repr(splits))}: expected a dict of names and numbers of records.")
    counts = {name: positive(f"splits[{name!r}]", count) for name, count in (splits or _SPLITS).items()}
    for name in counts:
        if not isinstance(name, str) or not naming.SPLIT_NAME.fullmatch(name):
            raise UsageError(
                f"splits[{clip(repr(name))}]: expected a name of a letter and up to 63 letters, digits and underscores."
            )
    if type(channels) is not int or channels not in (1, 3):  # True is 1, and no channel
        raise UsageError(f"channels={clip(repr(channels))}: expected 1 or 3.")
    path = Path(folder)
    if (path / naming.MANIFEST).exists():
        raise UsageError(f"{clip(path)} holds a dataset already. Name another folder.")
    path.mkdir(parents=True, exist_ok=True)
    config = {"image_size": [height, width], "channels": channels, "shards": shards, "seed": seed, "splits": counts}
    files = [_write(path, naming.CLASSES, "".join(f"{name}\n" for name in classes).encode())]
    written = {}
    for split, count in counts.items():
        records = list(_records(split, count, classes, (height, width, channels), seed))
        made = [
            _write_shard(path, naming.shard_name(split, index, min(shards, count)), records[part], files)
            for index, part in enumerate(_parts(count, min(shards, count)))
        ]
        by_class = Counter(i % len(classes) for i in range(count))
        written[split] = Split(
            count,
            sum(shard.bytes for shard in made),
            {name: by_class[i] for i, name in enumerate(classes)},
            tuple(made),
        )
    total = sum(counts.values())
    manifest = Manifest(
        fingerprint=f"{key_hash(repr((config, classes)).encode()):032x}",
        config=config,
        versions={"shardfeed": __version__},
        classes=classes,
        listing={},
        listed=total,
        written=total,
        rejected={},
        skipped={},
        fixes={},
        image=ImageInfo(height, width, channels, "raw", (127.5,) * channels, (64.0,) * channels),
        splits=written,
        files=tuple(sorted(files, key=lambda file: file.file)),
    )
    (path / naming.MANIFEST).write_bytes(manifest.to_json())  # last: with it the dataset is there
    return info(path)


def _records(split: str, count: int, classes: Sequence[str], shape: tuple[int, int, int], seed: int) -> Iterator[bytes]:
    """Framed records; the levels of class c begin at its share of what noise leaves."""
    source = random.Random(f"{seed} {split}")
    height, width, channels = shape
    for i in range(count):
        label = i % len(classes)
        darkest = label * (256 - _NOISE) // max(1, len(classes) - 1)
        noise = source.randbytes(height * width * channels)
        columns: dict[str, Value] = {
            "image": bytes(darkest + level % _NOISE for level in noise),
            "class": label,
            "label": classes[label].encode(),
            "size": [height, width],
            "key": f"{split}/{classes[label]}/{i:05d}.png".encode(),
        }
        yield frame(encode_example(columns))


def _parts(count: int, parts: int) -> list[slice]:
    return [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def _write_shard(path: Path, name: str, records: Sequence[bytes], files: list[SideFile]) -> Shard:
    """Write a shard and its index, which goes into ``files``."""
    sizes, data = [len(record) for record in records], b"".join(records)
    index = "".join(f"{sum(sizes[:number])} {size}\n" for number, size in enumerate(sizes))
    shard, side = _write(path, name, data), _write(path, naming.index_name(name), index.encode())
    files.append(side)
    blocks = [sizes[at : at + _BLOCK] for at in range(0, len(sizes), _BLOCK)]
    return Shard(name, len(sizes), shard.bytes, shard.crc32c, tuple((len(block), sum(block)) for block in blocks))


def _write(path: Path, name: str, data: bytes) -> SideFile:
    (path / name).write_bytes(data)
    return SideFile(name, len(data), to_hex(crc32c(data)))
