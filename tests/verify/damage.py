"""Ways to damage a file, and where its records are."""

from __future__ import annotations

from pathlib import Path

from shardfeed.format import naming


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
