"""A dataset without the mapped index, as version 1 of the format has it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from shardfeed.format import naming
from shardfeed.format.manifest import parse_manifest
from shardfeed.format.record_index import index_files


def without_indexes(folder: Path) -> None:
    """Remove ``SPLIT.index`` and ``SPLIT.classes`` of all splits, also from the manifest."""
    path = folder / naming.MANIFEST
    manifest = parse_manifest(path.read_bytes(), "manifest")
    for split in manifest.splits:
        for name in index_files(split).values():
            (folder / name).unlink()
    kept = tuple(file for file in manifest.files if not naming.is_split_index(file.file))
    path.write_bytes(dataclasses.replace(manifest, files=kept).to_json())
