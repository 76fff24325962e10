"""The dataset that these tests damage, and ways to damage it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import shardfeed
from shardfeed import testing
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import decode_example, encode_example
from shardfeed.format.manifest import Shard, SideFile
from shardfeed.format.tfrecord import frame
from tests.kit.datasets import Written, write_dataset

SHARD = "train-00001-of-00003.tfrecord"
OTHER = "train-00002-of-00003.tfrecord"
INDEX = SHARD + ".idx"
TABLE = "train-00001-of-00003.parquet"
REJECTS = "rejects-00000-of-00001.jsonl"
_REJECTED = (
    b'{"detail":"","key":"rose/bad.jpg","reason":"CORRUPT"}\n{"detail":"","key":"rose/none.jpg","reason":"EMPTY"}\n'
)

Columns = dict[str, Any]


def dataset(out: Path, **options: Any) -> Written:
    """JPEG: three train shards of five records, three test shards of one, and two rejects."""
    written = write_dataset(out, **{"splits": {"test": 3, "train": 15}, "block_records": 2, **options})
    change_manifest(
        out,
        rejected={"CORRUPT": 1, "EMPTY": 1},
        listed=written.manifest.listed + 2,
        files=(*written.manifest.files, _side_file(out, REJECTS, _REJECTED)),
    )
    return written


def records(shard: Path) -> list[tuple[int, int]]:
    """(offset, framed bytes) of each record, from the shard's index."""
    lines = (shard.parent / naming.index_name(shard.name)).read_text().splitlines()
    return [(int(offset), int(size)) for offset, size in map(str.split, lines)]


def flip(file: Path, at: int) -> None:
    """Change one bit of byte ``at`` (negative: from the end)."""
    data = bytearray(file.read_bytes())
    data[at] ^= 0x10
    file.write_bytes(data)


def cut(file: Path, size: int) -> None:
    """Keep the first ``size`` bytes."""
    file.write_bytes(file.read_bytes()[:size])


def append(file: Path, data: bytes) -> None:
    """Add ``data`` at the end."""
    file.write_bytes(file.read_bytes() + data)


def change_manifest(out: Path, **fields: Any) -> None:
    """The manifest with other values in ``fields``."""
    changed = replace(shardfeed.info(out).manifest, **fields)
    (out / naming.MANIFEST).write_bytes(changed.to_json())


def change_file(out: Path, name: str, data: bytes) -> None:
    """``data`` in the file ``name``, and its entry in the manifest to fit."""
    kept = [file for file in shardfeed.info(out).manifest.files if file.file != name]
    change_manifest(out, files=tuple(sorted([*kept, _side_file(out, name, data)], key=lambda file: file.file)))


def change_shards(out: Path, changes: Mapping[str, Callable[[Shard], Shard]]) -> None:
    """Other entries in the manifest for shards, by name; their bytes stay."""
    splits = {}
    for name, split in shardfeed.info(out).manifest.splits.items():
        shards = tuple(changes[s.file](s) if s.file in changes else s for s in split.shards)
        splits[name] = replace(split, bytes=sum(shard.bytes for shard in shards), shards=shards)
    change_manifest(out, splits=splits)


def columns(out: Path, name: str) -> list[Columns]:
    """The records of a shard."""
    data = (out / name).read_bytes()
    return [_decoded(data[at + 12 : at + size - 4]) for at, size in records(out / name)]


def _decoded(record: bytes) -> Columns:
    return {name: values[0] if len(values) == 1 else values for name, values in decode_example(record).items()}


def rewrite(out: Path, name: str, rows: Sequence[Columns | bytes]) -> None:
    """As many other records (bytes: as they are) in a shard; index, manifest and, if the records
    have all columns, table and mapped index fit them.
    """
    frames = [frame(row if isinstance(row, bytes) else encode_example(row)) for row in rows]
    sizes = [len(framed) for framed in frames]
    data = b"".join(frames)
    (out / name).write_bytes(data)
    blocks = tuple((len(sizes[at : at + 2]), sum(sizes[at : at + 2])) for at in range(0, len(sizes), 2))
    crc = to_hex(crc32c(data))
    change_shards(out, {name: lambda _: Shard(name, len(frames), len(data), crc, blocks)})
    lines = "".join(f"{sum(sizes[:at])} {size}\n" for at, size in enumerate(sizes))
    change_file(out, naming.index_name(name), lines.encode())
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):  # a row that no table can hold
        rewrite_table(out, name, [_decoded(row) if isinstance(row, bytes) else row for row in rows], sizes)


def rewrite_table(out: Path, name: str, rows: Sequence[Columns], sizes: Sequence[int]) -> None:
    """Another table of a shard, of records with the columns ``rows``; mapped index and manifest fit it."""
    manifest = shardfeed.info(out).manifest
    table = testing.write_table(out, name, rows, sizes, manifest.image.format)
    change_manifest(out, tables=tuple(table if old.file == table.file else old for old in manifest.tables))
    for file in testing.write_split_index(out, name.split("-")[0], manifest.fingerprint):
        change_file(out, file.file, (out / file.file).read_bytes())


def _side_file(out: Path, name: str, data: bytes) -> SideFile:
    (out / name).write_bytes(data)
    return SideFile(name, len(data), to_hex(crc32c(data)))
