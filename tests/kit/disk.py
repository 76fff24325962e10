"""What lies on the disk, read without the code that wrote it wherever that is possible."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardfeed.format.example import decode_example


def files(out: Path) -> list[str]:
    """Every file below ``out``, sorted."""
    return sorted(
        os.path.relpath(os.path.join(folder, name), out) for folder, _, names in os.walk(out) for name in names
    )


def digests(out: Path) -> dict[str, str]:
    """SHA-256 of every file but ``run.json``, which alone may differ between builds."""
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in files(out) if name != "run.json"}


def snapshot(root: Path) -> dict[str, tuple[int, ...]]:
    """Facts of everything below ``root``, with a hash of its content; without access times."""
    seen: dict[str, tuple[int, ...]] = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        for name in [b"", *folders, *names]:
            path = os.path.join(folder, name)
            found = os.lstat(path)
            data = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    data = file.read()
            content = int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
            facts = (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, content)
            seen[os.fsdecode(path)] = facts
    return seen


def manifest(out: Path) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((out / "manifest.json").read_bytes())
    return raw


def records(out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(split, features) of every record in every shard that lies in ``out``."""
    for path in sorted(out.glob("*.tfrecord")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            features = decode_example(data[at + 12 : at + 12 + length])
            yield path.name.split("-")[0], {name: v[0] if len(v) == 1 else v for name, v in features.items()}
            at += 16 + length


def keys(out: Path) -> list[bytes]:
    """Keys of all records, sorted; twice where a record is there twice."""
    return sorted(features["key"] for _, features in records(out))


def rejects(folder: Path) -> list[dict[str, str]]:
    """Lines of all rejects files in ``folder``, in their order."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("rejects-*.jsonl")))
    return [json.loads(line) for line in text.split("\n")[:-1]]
