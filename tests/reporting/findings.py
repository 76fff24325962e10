"""Rejects and near-duplicates, written by hand into a dataset that a test made."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardfeed import info
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.manifest import SideFile


def edge(
    group: int, images: int, first: tuple[str, Any, str], other: tuple[str, Any, str], **more: Any
) -> dict[str, Any]:
    """A line of ``duplicates.jsonl`` between two images, given by key, label and split."""
    keys, labels, splits = zip(first, other, strict=True)
    return {
        "group": group, "images": images, "keys": keys, "labels": labels, "splits": splits, "distance": 3, "exact": False,
        **more,
    }  # fmt: skip


def add_rejects(path: Path, rejects: Sequence[tuple[str, str, str]]) -> None:
    """Adds rejects, given by key, reason and detail."""
    lines = [{"key": key, "reason": reason, "detail": detail} for key, reason, detail in rejects]
    by_reason: dict[str, int] = {}
    for _, reason, _ in rejects:
        by_reason[reason] = by_reason.get(reason, 0) + 1
    listed = info(path).manifest.written + len(rejects)
    _add(path, naming.rejects_name(0, 1), lines, rejected=by_reason, listed=listed)


def add_duplicates(path: Path, edges: Sequence[Mapping[str, Any]], **counts: int) -> None:
    """Adds near-duplicates, and what the manifest says of them."""
    _add(path, naming.DUPLICATES, edges, duplicates=counts)


def _add(path: Path, name: str, lines: Sequence[Mapping[str, Any]], **changes: Any) -> None:
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    (path / name).write_bytes(data)
    manifest = info(path).manifest
    files = (*manifest.files, SideFile(name, len(data), to_hex(crc32c(data))))
    (path / naming.MANIFEST).write_bytes(dataclasses.replace(manifest, files=files, **changes).to_json())
