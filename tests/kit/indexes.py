"""Index files of a dataset as a build writes them, and a dataset without them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from shardfeed.format import naming
from shardfeed.format.manifest import Manifest, SideFile, parse_manifest


def without_indexes(folder: Path) -> Manifest:
    """Remove ``SPLIT.index`` and ``SPLIT.classes`` of all splits, as before there were any."""
    manifest = parse_manifest((folder / naming.MANIFEST).read_bytes(), "manifest")
    names = {
        name for split in manifest.splits for name in (naming.split_index_name(split), naming.split_classes_name(split))
    }
    for name in names:
        (folder / name).unlink(missing_ok=True)
    return _written(folder, manifest, [file for file in manifest.files if file.file not in names])


def _written(folder: Path, manifest: Manifest, files: list[SideFile]) -> Manifest:
    manifest = dataclasses.replace(manifest, files=tuple(sorted(files, key=lambda file: file.file)))
    (folder / naming.MANIFEST).write_bytes(manifest.to_json())
    return manifest
