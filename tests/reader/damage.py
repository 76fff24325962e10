"""Damages a record of ``write_dataset``'s training split, and says how the error should name it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import Value, decode_example, encode_example
from shardfeed.format.manifest import parse_manifest
from shardfeed.format.tfrecord import OVERHEAD, frame, scan

SHARD = "train-00001-of-00003.tfrecord"
NUMBER = 6  # the record that is damaged, in the second block of the shard


def records_of(path: Path) -> list[bytes]:
    with open(path / SHARD, "rb") as file:
        return [data for _, data in scan(file)]


def offset_of(path: Path, number: int) -> int:
    return sum(len(data) + OVERHEAD for data in records_of(path)[:number])


def flip(path: Path, at: int, file: str = SHARD) -> None:
    """Flip a bit of the byte ``at``."""
    data = bytearray((path / file).read_bytes())
    data[at] ^= 1
    (path / file).write_bytes(data)


def replace(path: Path, data: bytes, number: int = NUMBER) -> None:
    """Put a record of the same length, with right checksums, in the place of record ``number``."""
    records = records_of(path)
    assert len(data) == len(records[number])
    records[number] = data
    (path / SHARD).write_bytes(b"".join(map(frame, records)))


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Value]], number: int = NUMBER) -> None:
    """``replace`` by what ``change`` makes of the record's columns."""
    replace(path, encode_example(change({**decode_example(records_of(path)[number])})), number)


def rewrite_image(path: Path, change: Callable[[bytes], bytes], number: int = NUMBER) -> None:
    """``rewrite`` by another image, filled up with zeros to the same length."""
    rewrite(path, lambda row: {**row, "image": change(row["image"][0]).ljust(len(row["image"][0]), b"\0")}, number)


def place(path: Path, number: int = NUMBER) -> str:
    """How an error names record ``number``, which must be whole."""
    key = decode_example(records_of(path)[number])["key"][0]
    assert isinstance(key, bytes)
    return f"record {number} at byte {offset_of(path, number)}, key {key.decode()}"


def message(path: Path, what: str) -> str:
    """The whole error for the shard."""
    return (
        f"{path}/{SHARD} is damaged: {what}. Copy the file from where the dataset is whole, or build the dataset again into "
        f"an empty folder. shardfeed verify {path} --deep lists all damage."
    )


def accept_shard(path: Path) -> None:
    """Make the manifest that of the shard as it is now, as of a build that wrote it so."""
    manifest = path / "manifest.json"
    shards = parse_manifest(manifest.read_bytes(), "").splits["train"].shards
    (shard,) = (one for one in shards if one.file == SHARD)
    manifest.write_text(manifest.read_text().replace(shard.crc32c, to_hex(crc32c((path / SHARD).read_bytes()))))
