"""Index files of a dataset as a build writes them, and a dataset without them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import decode_example
from shardfeed.format.manifest import Manifest, SideFile, parse_manifest
from shardfeed.format.record_index import DTYPE, Column, IndexHeader
from shardfeed.format.tfrecord import scan


def without_indexes(folder: Path) -> Manifest:
    """Remove ``SPLIT.index`` and ``SPLIT.classes`` of all splits, as before there were any."""
    manifest = parse_manifest((folder / naming.MANIFEST).read_bytes(), "manifest")
    names = {
        name for split in manifest.splits for name in (naming.split_index_name(split), naming.split_classes_name(split))
    }
    for name in names:
        (folder / name).unlink(missing_ok=True)
    return _written(folder, manifest, [file for file in manifest.files if file.file not in names])


def write_indexes(folder: Path) -> Manifest:
    """Write ``SPLIT.index`` and ``SPLIT.classes`` of all splits, and name them in the manifest."""
    manifest = without_indexes(folder)
    files = list(manifest.files)
    for name, split in manifest.splits.items():
        offsets, classes = [], []
        for shard in split.shards:
            with open(folder / shard.file, "rb") as file:
                for offset, data in scan(file):
                    offsets.append(offset)
                    classes.append(decode_example(data)["class"][0])
        columns: tuple[tuple[Column, str, list[int]], ...] = (
            ("offsets", naming.split_index_name(name), offsets),
            ("classes", naming.split_classes_name(name), classes),
        )
        for column, file_name, values in columns:
            body = np.array(values, DTYPE[column]).tobytes()
            header = IndexHeader(column, manifest.fingerprint, split.records, len(split.shards), crc32c(body))
            data = header.to_bytes() + body
            (folder / file_name).write_bytes(data)
            files.append(SideFile(file_name, len(data), to_hex(crc32c(data))))
    return _written(folder, manifest, files)


def _written(folder: Path, manifest: Manifest, files: list[SideFile]) -> Manifest:
    manifest = dataclasses.replace(manifest, files=tuple(sorted(files, key=lambda file: file.file)))
    (folder / naming.MANIFEST).write_bytes(manifest.to_json())
    return manifest
