"""CRC-32C (Castagnoli) of bytes and files."""

from __future__ import annotations

import os
from typing import BinaryIO

import google_crc32c

_READ_BYTES = 1 << 20  # a read of a megabyte hides the call's cost and stays in cache


def crc32c(data: bytes | memoryview, value: int = 0) -> int:
    """CRC-32C of ``data``, continuing from ``value``."""
    return int(google_crc32c.extend(value, bytes(data) if isinstance(data, memoryview) else data))


def crc32c_file(file: BinaryIO) -> tuple[int, int]:
    """(size in bytes, CRC-32C) of what is left in ``file``."""
    size = value = 0
    while data := file.read(_READ_BYTES):
        size += len(data)
        value = crc32c(data, value)
    return size, value


def crc32c_path(path: str | bytes | os.PathLike[str]) -> tuple[int, int]:
    """(size in bytes, CRC-32C) of a local file."""
    with open(path, "rb") as file:
        return crc32c_file(file)


def to_hex(crc: int) -> str:
    """Eight lower-case hex digits, as names and manifests show a crc."""
    return f"{crc:08x}"
