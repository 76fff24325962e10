"""``shardfeed report`` of many records: wall seconds, CPU seconds, memory, bytes of the page.

A build of the photos gives one shard. It is linked into many, whose tables are made up: 65,536 rows
of varied sizes, classes and keys per row group. 40,000 groups of near-duplicates and 100,000
rejects lie beside it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import ROOT, command, where  # this repository is found from here on

import shardfeed
from shardfeed.format import naming
from shardfeed.format.manifest import RecordTable, Shard, Split
from shardfeed.format.record_table import ROW_GROUP, TableWriter, schema
from tests.reporting.findings import add_duplicates, add_rejects, edge

_SHARDS = 100
_GROUPS, _REJECTS = 40_000, 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--classes", type=int, default=2_500)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out, page = Path(folder, "out"), Path(folder, "report.html")
        make(Path(folder, "small"), out, args.records, args.classes)
        for _ in range(args.rounds):
            ran = command("-m", "shardfeed", "report", str(out), "--output", str(page))
            print(
                f"{args.records:,} records, {args.classes:,} classes: {ran.seconds:.1f} s, CPU {ran.cpu:.1f} s, "
                f"{ran.peak_mb:.0f} MB of memory, page of {page.stat().st_size / 1e6:.2f} MB"
            )
    print(where())


def make(small: Path, out: Path, records: int, classes: int) -> None:
    """A dataset of ``records`` in ``out``."""
    command("-m", "shardfeed", "build", "--input", str(ROOT / "examples/sample_photos"), "--output", str(small))
    manifest = shardfeed.info(small).manifest
    first = manifest.splits["train"].shards[0]
    places = pq.read_table(small / naming.table_name(first.file), columns=["offset", "bytes"])
    names = tuple(f"class {number}" for number in range(classes))
    share = 1 / np.arange(1, classes + 1)
    random, counts, shards, tables, keys = np.random.default_rng(0), np.zeros(classes, np.int64), [], [], []
    out.mkdir()
    for number in range(_SHARDS):
        name, rows = naming.shard_name("train", number, _SHARDS), records // _SHARDS
        os.link(small / first.file, out / name)
        table = TableWriter()
        for start in range(0, rows, ROW_GROUP):
            chosen = random.choice(classes, min(ROW_GROUP, rows - start), p=share / share.sum())
            batch = _rows(random, places, chosen, f"{number:03}_{start}")
            table._writer.write_batch(batch, row_group_size=ROW_GROUP)  # without the digest, which nobody compares
            counts += np.bincount(chosen, minlength=classes)
            keys += batch.column("key")[:400].to_pylist()
        (out / naming.table_name(name)).write_bytes(table.finish())
        tables.append(RecordTable(naming.table_name(name), rows, "0" * 32))
        shards.append(Shard(name, rows, first.bytes, first.crc32c, ((rows, first.bytes),)))
    total = _SHARDS * (records // _SHARDS)
    split = Split(total, _SHARDS * first.bytes, dict(zip(names, map(int, counts), strict=True)), tuple(shards))
    image = replace(manifest.image, height=None, width=None)
    made = replace(
        manifest, classes=names, splits={"train": split}, tables=tuple(tables), files=(), listed=total, written=total,
        rejected={}, skipped={}, image=image,
    )  # fmt: skip
    (out / naming.MANIFEST).write_bytes(made.to_json())
    reasons = ("TRUNCATED", "FORMAT", "CORRUPT")
    add_rejects(out, [(f"broken/{number}.jpg", reasons[number % 3], "ends early") for number in range(_REJECTS)])
    pairs = (
        ((keys[number % len(keys)], "a", "train"), (keys[-number % len(keys)], "b", "train"))
        for number in range(_GROUPS)
    )
    add_duplicates(out, [edge(number, 2, *pair) for number, pair in enumerate(pairs)], groups=_GROUPS, pairs=_GROUPS)


def _rows(random: np.random.Generator, places: pa.Table, classes: np.ndarray, key: str) -> pa.RecordBatch:
    rows = len(classes)
    chosen = pa.array(random.integers(0, len(places), rows))
    columns: dict[str, Any] = {
        "key": [f"class_{each:05}/IMG_{key}_{number:06}.jpg" for number, each in enumerate(classes)],
        "label": [f"class {each}" for each in classes],
        "class": classes,
        "offset": places.column("offset").combine_chunks().take(chosen),
        "bytes": places.column("bytes").combine_chunks().take(chosen),
        "height": random.integers(200, 4_000, rows),
        "width": random.integers(200, 4_000, rows),
        "format": ["jpeg"] * rows,
        "root": np.zeros(rows),
        "source_bytes": random.lognormal(12, 1, rows).astype(np.int64) + 1,
        "version": random.integers(1, 1 << 60, rows),
        "crc32c": random.integers(0, 1 << 32, rows),
        "fixes": [[]] * rows,
        "hash": random.integers(0, 1 << 63, rows),
    }
    arrays = [
        pa.array(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in schema()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


if __name__ == "__main__":
    main()
