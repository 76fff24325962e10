"""For tests of your own training code: a small dataset, and checks of datasets and of resuming.

    from shardfeed.testing import assert_dataset_intact, assert_resumes, make_dataset

    info = make_dataset(tmp_path, {"train": 100, "validation": 30})
    model.fit(shardfeed.load(info, "train", 10), steps_per_epoch=10)

``make_dataset`` needs neither Beam nor Pillow: its images are raw pixels, which need no codec. All
the rest is what a build writes, so ``load``, ``array_batches``, ``inspect`` and ``verify --deep``
read it as they read a build. The brightness of an image tells its labels, with noise on top: a
model that learns anything learns these. Do not measure speed with it: the images are tiny, and raw
ones need no decoding.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed._version import __version__
from shardfeed.arguments import distinct_names, height_width, integer, positive, unexpected
from shardfeed.dataset.info import DatasetInfo, info
from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import Value, encode_feature, encode_list, join_features
from shardfeed.format.hashing import key_hash
from shardfeed.format.manifest import LABEL_KINDS, ImageInfo, Manifest, RecordTable, Shard, SideFile, Split
from shardfeed.format.record_index import DTYPE, IndexColumn, IndexHeader, index_files
from shardfeed.format.record_table import TableWriter, read_batches, schema
from shardfeed.format.tfrecord import frame
from shardfeed.verification.dataset import verify

__all__ = ["assert_dataset_intact", "assert_resumes", "make_dataset"]

_BLOCK_RECORDS = 16  # a build's block is a megabyte, and a test wants several
_NOISE = 64  # of 256 levels
_SPLITS = {"train": 60, "validation": 20}


def assert_dataset_intact(directory: str | os.PathLike[str]) -> None:
    """Check every byte of the dataset in ``directory``, as ``shardfeed.verify(deep=True)`` does.

    Raises:
        AssertionError: the dataset is damaged; lists every problem with its file and remedy.
        DatasetError: there is no dataset, or its manifest cannot be read.
    """
    report = verify(directory, deep=True)
    if not report:
        raise AssertionError(str(report))


def assert_resumes(make_batches: Callable[[int], Iterable[Any]], *, steps: int = 8) -> None:
    """Check that a stream resumed at any step gives the same batches as a stream from step 0.

        assert_resumes(lambda step: shardfeed.load(info, "train", 10, start_step=step).map(augment))

    A run from 0 is compared with one from each later step, two batches each. A batch is an array,
    or a tuple, list or dict of batches; arrays of NumPy, TensorFlow, JAX and PyTorch (on the CPU)
    are compared in type, shape and every value.

    Args:
        make_batches: Takes a step, and gives the batches from that step on.
        steps: Batches of the run from 0, all of which are held in memory.

    Raises:
        AssertionError: names the step, and the values that differ or the batch that did not come.
    """

    def run(start: int, count: int) -> list[dict[str, NDArray[Any]]]:
        found = [dict(_arrays(batch, "batch")) for batch in islice(make_batches(start), count)]
        if len(found) < count:
            raise AssertionError(f"start_step={start}: step {start + len(found)} did not come")
        return found

    whole = run(0, positive("steps", steps))
    for start in range(1, steps):
        expected = whole[start : start + 2]
        for step, (one, other) in enumerate(zip(run(start, len(expected)), expected, strict=True), start):
            text = f"step {step} differs with start_step={start} from a run from 0"
            if one.keys() != other.keys():
                raise AssertionError(f"{text}: found {', '.join(one)}, expected {', '.join(other)}")
            for name, values in other.items():
                np.testing.assert_array_equal(one[name], values, f"{text}: {name}", strict=True)


def _arrays(batch: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Copies of the arrays of a batch, by their places in it."""
    if isinstance(batch, Mapping):
        for key, part in batch.items():
            yield from _arrays(part, f"{name}[{key!r}]")
    elif isinstance(batch, (tuple, list)):
        for index, part in enumerate(batch):
            yield from _arrays(part, f"{name}[{index}]")
    else:
        yield name, np.array(batch)


def make_dataset(
    folder: str | os.PathLike[str],
    splits: Mapping[str, int] | None = None,
    *,
    classes: Sequence[str] = ("daisy", "rose", "tulip"),
    image_size: int | tuple[int, int] = 8,
    channels: int = 3,
    shards: int = 2,
    seed: int = 0,
    label_kind: str = "single",
) -> DatasetInfo:
    """Write a dataset of raw images into the new ``folder`` and return its ``shardfeed.info``.

    The same arguments write the same bytes. Record ``i`` of a split is of class ``i %
    len(classes)`` and has the key ``{split}/{class}/{i:05d}.png``. If ``label_kind`` is "multi",
    the record has class ``c`` if bit ``c % 8`` of ``i`` is set, so record 0 has none; if it is
    "none", there are no classes. Then the key is ``{split}/{i:05d}.png``.

    Args:
        folder: A local folder without a dataset.
        splits: Number of records by name of the split; by default 60 in "train" and 20 in
            "validation".
        classes: Names of the classes.
        image_size: Height and width (an int: both).
        channels: 3, or 1 for gray.
        shards: Shards per split, at most one per record.
        seed: Seed of the noise.
        label_kind: "single", "multi" for any number of labels per record, or "none".

    Raises:
        UsageError: a wrong argument; a dataset is there already.
    """
    height, width = height_width("image_size", image_size)
    shards, seed = positive("shards", shards), integer("seed", seed)
    classes = distinct_names("classes", classes)
    if splits is not None and not isinstance(splits, Mapping):
        raise unexpected("splits", splits, "a dict of names and numbers of records")
    counts = {name: positive(f"splits[{name!r}]", count) for name, count in (splits or _SPLITS).items()}
    for name in counts:
        if not isinstance(name, str) or not naming.SPLIT_NAME.fullmatch(name):
            raise UsageError(
                f"splits[{clip(repr(name))}]: expected a name of a letter and up to 63 letters, digits and underscores."
            )
    if type(channels) is not int or channels not in (1, 3):  # True is 1, and no channel
        raise unexpected("channels", channels, "1 or 3")
    if label_kind not in LABEL_KINDS:
        raise unexpected("label_kind", label_kind, ", ".join(map(repr, LABEL_KINDS)))
    path = Path(folder)
    if (path / naming.MANIFEST).exists():
        raise UsageError(f"{clip(path)} holds a dataset already. Name another folder.")
    config = {"image_size": [height, width], "channels": channels, "shards": shards, "seed": seed, "splits": counts}
    if label_kind != "single":
        config["label_kind"] = label_kind
    shape = height, width, channels
    write_dataset(
        path,
        {split: list(_examples(split, count, classes, shape, seed, label_kind)) for split, count in counts.items()},
        image=ImageInfo(height, width, channels, "raw", (127.5,) * channels, (64.0,) * channels),
        classes=() if label_kind == "none" else classes,
        shards=shards,
        label_kind=label_kind,
        fingerprint=f"{key_hash(repr((config, classes)).encode()):032x}",
        config=config,
    )
    return info(path)


def write_dataset(
    path: Path,
    splits: Mapping[str, Sequence[Mapping[str, Value]]],
    *,
    image: ImageInfo,
    classes: Sequence[str],
    shards: int = 2,
    block_records: int = _BLOCK_RECORDS,
    label_kind: str = "single",
    fingerprint: str,
    config: Mapping[str, Any],
) -> Manifest:
    """Write records, given by their columns, as a build does. Nothing is checked.

    If ``label_kind`` is "multi", ``class`` and ``label`` are lists.
    """
    path.mkdir(parents=True, exist_ok=True)
    files = [_write(path, naming.CLASSES, "".join(f"{name}\n" for name in classes).encode())]
    tables: list[RecordTable] = []
    written = {}
    for split, examples in splits.items():
        count = min(shards, len(examples))
        made = [
            _write_shard(
                path,
                naming.shard_name(split, index, count),
                part,
                image.format,
                block_records,
                label_kind,
                files,
                tables,
            )
            for index, part in enumerate(_parts(examples, count))
        ]
        counts = {
            name: sum(index in _class_list(example) for example in examples) for index, name in enumerate(classes)
        }
        written[split] = Split(len(examples), sum(shard.bytes for shard in made), counts, tuple(made))
        files += write_split_index(path, split, fingerprint, label_kind)
    total = sum(map(len, splits.values()))
    manifest = Manifest(
        fingerprint=fingerprint,
        config=dict(config),
        versions={"shardfeed": __version__},
        classes=tuple(classes),
        listing={},
        listed=total,
        written=total,
        rejected={},
        skipped={},
        fixes={},
        image=image,
        splits=written,
        files=tuple(sorted(files, key=lambda file: file.file)),
        tables=tuple(tables),
        label_kind=label_kind,
        formats=("png",) if image.format == "raw" else (image.format,),
    )
    (path / naming.MANIFEST).write_bytes(manifest.to_json())  # last: with it the dataset is there
    return manifest


def _class_list(example: Mapping[str, Any]) -> list[int]:
    """Indexes of a record's classes."""
    found: int | list[int] = example.get("class", [])
    return found if isinstance(found, list) else [found]


def _examples(
    split: str, count: int, classes: Sequence[str], shape: tuple[int, int, int], seed: int, label_kind: str
) -> Iterator[dict[str, Value]]:
    """Columns of each record. Each class, or set of them, has its own brightness, with noise."""
    source = random.Random(f"{seed} {split}")
    height, width, channels = shape
    several_bits = min(len(classes), 8)
    for i in range(count):
        label = i % len(classes)
        level, levels = (i % 2**several_bits, 2**several_bits) if label_kind == "multi" else (label, len(classes))
        darkest = level * (256 - _NOISE) // max(1, levels - 1)
        noise = source.randbytes(height * width * channels)
        several = [number for number in range(len(classes)) if i >> number % 8 & 1]
        labels: dict[str, Any] = {
            "single": {"class": label, "label": classes[label].encode()},
            "multi": {"class": several, "label": [classes[number].encode() for number in several]},
            "none": {},
        }[label_kind]
        name = f"{classes[label]}/{i:05d}" if label_kind == "single" else f"{i:05d}"
        yield {
            "image": bytes(darkest + value % _NOISE for value in noise),
            **labels,
            "size": [height, width],
            "key": f"{split}/{name}.png".encode(),
        }


def write_table(
    path: Path,
    shard: str,
    examples: Sequence[Mapping[str, Value]],
    sizes: Sequence[int],
    image_format: str,
    label_kind: str = "single",
) -> RecordTable:
    """Write the record table of the file ``shard``, as a build does.

    ``examples``: its records; ``sizes``: their bytes with their frames.
    """
    import pyarrow as pa

    end, rows = 0, []
    for example, size in zip(examples, sizes, strict=True):
        height, width = example["size"]  # type: ignore[misc]
        label: Any = example.get("label")
        labels: dict[str, Any] = {}
        if label_kind == "single":
            labels = {"class": example["class"], "label": label.decode()}
        elif label_kind == "multi":
            labels = {"classes": example["class"], "labels": [one.decode() for one in label]}
        rows.append(
            {
                "key": example["key"].decode(),  # type: ignore[union-attr]
                **labels,
                "offset": end,
                "bytes": size,
                "height": height,
                "width": width,
                "format": image_format,
                "root": 0,
                "source_bytes": len(example["image"]),  # type: ignore[arg-type]
                "version": 0,
                "crc32c": None,
                "fixes": [],
                "hash": None,
            }
        )
        end += size
    table = TableWriter(label_kind=label_kind)
    table.add(pa.RecordBatch.from_pylist(rows, schema(label_kind=label_kind)))
    name = naming.table_name(shard)
    (path / name).write_bytes(table.finish())
    return RecordTable(name, table.rows, f"{table.digest:032x}")


def write_split_index(path: Path, split: str, fingerprint: str, label_kind: str = "single") -> list[SideFile]:
    """Write the mapped index of a split from the shards and tables that lie in ``path``."""
    shards = sorted(path.glob(f"{split}-*-of-*.tfrecord"))
    rows = [batch for shard in shards for batch in _table_of(shard, label_kind)]
    single = label_kind == "single"
    files = []
    columns: dict[IndexColumn, list[Any]] = {
        "offsets": [batch.column("offset") for batch in rows],
        "classes": [batch.column("class") if single else [-1] * len(batch) for batch in rows],
    }
    for column, name in index_files(split).items():
        data = b"".join(np.asarray(value).astype(DTYPE[column]).tobytes() for value in columns[column])
        header = IndexHeader(column, fingerprint, sum(map(len, rows)), len(shards), crc32c(data))
        files.append(_write(path, name, header.to_bytes() + data))
    return files


def _table_of(shard: Path, label_kind: str) -> Iterator[Any]:
    with open(shard.with_name(naming.table_name(shard.name)), "rb") as file:
        yield from read_batches(file, label_kind)


def _parts(examples: Sequence[Mapping[str, Value]], count: int) -> Iterator[Sequence[Mapping[str, Value]]]:
    for index in range(count):
        yield examples[len(examples) * index // count : len(examples) * (index + 1) // count]


def _write_shard(
    path: Path,
    name: str,
    examples: Sequence[Mapping[str, Value]],
    image_format: str,
    block_records: int,
    label_kind: str,
    files: list[SideFile],
    tables: list[RecordTable],
) -> Shard:
    """Write a shard, its index, which goes into ``files``, and its table, for ``tables``."""
    framed = [frame(_encoded(example)) for example in examples]
    sizes = [len(record) for record in framed]
    shard = _write(path, name, b"".join(framed))
    offsets = accumulate(sizes, initial=0)
    lines = "".join(f"{offset} {size}\n" for offset, size in zip(offsets, sizes, strict=False))
    files.append(_write(path, naming.index_name(name), lines.encode()))
    tables.append(write_table(path, name, examples, sizes, image_format, label_kind))
    blocks = [sizes[at : at + block_records] for at in range(0, len(sizes), block_records)]
    return Shard(name, len(sizes), shard.bytes, shard.crc32c, tuple((len(block), sum(block)) for block in blocks))


def _encoded(example: Mapping[str, Value]) -> bytes:
    """A record's Example. Lists of classes and labels may be empty."""
    kinds = {"class": int, "label": bytes}
    return join_features(
        [
            encode_list(name, value, kinds[name])
            if name in kinds and isinstance(value, list)
            else encode_feature(name, value)
            for name, value in sorted(example.items())
        ]
    )


def _write(path: Path, name: str, data: bytes) -> SideFile:
    (path / name).write_bytes(data)
    return SideFile(name, len(data), to_hex(crc32c(data)))
