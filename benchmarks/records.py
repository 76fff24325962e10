"""``records`` of 110 million made-up records on a disk, and of a bucket on a local server.

- How long it takes to open the split: 12,000 shards, each a link to one file of real records.
- The private memory (smaps_rollup) of 8 processes while they read and decode random records, made
  by fork and by spawn, at the worst moment of the worst process. What a process has that does
  nothing is subtracted. Clean pages are told apart: they are those of the mapped index that no
  other process has touched yet, and the kernel may take them back.
- Random records per second from fake-gcs-server, in batches of 128, not decoded. Server and reader
  share the cores.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, build, link_copies, median, photos_parser, where

import shardfeed
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.format.manifest import SideFile, parse_manifest
from shardfeed.format.record_index import DTYPE, INDEX_HEADER_BYTES, ITEM_BYTES, IndexHeader, index_files

_BATCH = 128
_MOST_OPEN_SECONDS, _MOST_PRIVATE_MB, _LEAST_RATE = 1.0, 50, 4000


def make_up(small: Path, large: Path, count: int) -> None:
    """A dataset of ``count`` shards, each a link to all records of ``small`` in one file."""
    manifest = parse_manifest((small / naming.MANIFEST).read_bytes(), str(small))
    split = manifest.splits["train"]
    with open(large / "records", "wb") as file:
        for shard in split.shards:
            file.write((small / shard.file).read_bytes())
    blocks = tuple(block for shard in split.shards for block in shard.blocks)
    one = replace(split.shards[0], records=split.records, bytes=split.bytes, blocks=blocks)
    shards = tuple(replace(one, file=naming.shard_name("train", number, count)) for number in range(count))
    for shard in shards:
        os.link(large / "records", large / shard.file)
    firsts = np.cumsum([0, *(shard.bytes for shard in split.shards[:-1])], dtype=np.uint64)
    before = np.repeat(firsts, [shard.records for shard in split.shards])
    files = []
    for column, name in index_files("train").items():
        values = np.frombuffer((small / name).read_bytes()[INDEX_HEADER_BYTES:], DTYPE[column])
        data = (values + before if column == "offsets" else values).astype(DTYPE[column]).tobytes()
        crc = 0
        with open(large / name, "wb") as file:
            file.seek(INDEX_HEADER_BYTES)
            for _ in shards:
                file.write(data)
                crc = crc32c(data, crc)
            size = file.tell()
            file.seek(0)
            file.write(IndexHeader(column, manifest.fingerprint, count * split.records, count, crc).to_bytes())
            file.flush()
            os.fsync(file.fileno())  # pages that are yet to be written would count as private and dirty
        assert size == INDEX_HEADER_BYTES + count * split.records * ITEM_BYTES[column]
        files.append(SideFile(name, size, f"{crc:08x}"))
    counts = {name: count * found for name, found in split.class_counts.items()}
    whole = replace(split, records=count * split.records, bytes=count * split.bytes, class_counts=counts, shards=shards)
    made = replace(
        manifest, splits={"train": whole}, files=tuple(files), tables=(), listed=whole.records, written=whole.records,
        rejected={}, skipped={},
    )  # fmt: skip
    (large / naming.MANIFEST).write_bytes(made.to_json())


def _read_for_ever(ds: shardfeed.Records, seed: int) -> None:
    draw = random.Random(seed)
    while True:
        ds[draw.randrange(len(ds))]


def _do_nothing(ds: None, seed: int) -> None:
    time.sleep(3600)


def _private_mb(pid: int) -> list[float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return [int(line.split()[1]) / 1024 for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))]


def private_mb(method: str, work: Callable[[Any, int], None], ds: Any, seconds: float) -> tuple[float, float]:
    """The most clean and the most dirty private memory of one of 8 processes, looked at twice a second."""
    processes: list[Any] = [
        multiprocessing.get_context(method).Process(target=work, args=(ds, seed), daemon=True)  # type: ignore[attr-defined]
        for seed in range(8)
    ]
    for process in processes:
        process.start()
    seen, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.5)
        seen += [_private_mb(process.pid) for process in processes]
    for process in processes:
        process.kill()
        process.join()
    clean, dirty = zip(*seen, strict=True)
    return max(clean), max(dirty)


def on_disk(small: Path, large: Path, count: int, seconds: float) -> None:
    """Prints the figures of the large dataset."""
    make_up(small, large, count)
    info = shardfeed.info(large)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        ds = shardfeed.records(info, "train")
        took.append(time.perf_counter() - began)
    print(
        f"{len(ds):,} records in {count:,} shards: opened in {median(took):.2f} s (limit {_MOST_OPEN_SECONDS:.0f} s)",
        flush=True,
    )
    for method in ("fork", "spawn"):
        (_, idle), (clean, dirty) = (
            private_mb(method, _do_nothing, None, 3),
            private_mb(method, _read_for_ever, ds, seconds),
        )
        print(
            f"private memory of 8 processes by {method}: at most {dirty - idle:.0f} MB each (limit {_MOST_PRIVATE_MB}) beside "
            f"the {idle:.0f} MB of an idle one, and {clean:.0f} MB of clean pages of the index",
            flush=True,
        )


def from_bucket(small: Path, seconds: float) -> None:
    """Prints how many records come per second from a local server."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    bucket = storage.Client(project="p", credentials=AnonymousCredentials()).create_bucket("datasets")  # type: ignore[no-untyped-call]
    for path in small.iterdir():
        bucket.blob(f"small/{path.name}").upload_from_filename(path)
    ds = shardfeed.records("gs://datasets/small", "train", decode=False)
    drawn = random.Random(1).choices(range(len(ds)), k=50 * _BATCH)
    batches = [drawn[first : first + _BATCH] for first in range(0, len(drawn), _BATCH)]
    rates, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        for batch in batches:
            ds.__getitems__(batch)
        rates.append(len(drawn) / (time.perf_counter() - began))
    print(
        f"from a local server in batches of {_BATCH}: {median(rates):,.0f} records/s (goal {_LEAST_RATE:,})", flush=True
    )


def main() -> None:
    """Prints each figure with its goal."""
    sys.path.insert(0, str(ROOT))  # the server's starter lives with the tests
    from tests.kit.servers.fake_gcs_server import running_fake_gcs_server

    parser = photos_parser(__doc__)
    parser.add_argument("--copies", type=int, default=3, help="of each photo in a shard")
    parser.add_argument("--shards", type=int, default=12_000)
    parser.add_argument("--seconds", type=float, default=15, help="of reading, for each figure")
    args = parser.parse_args()
    print(where())
    os.environ.update(GOMAXPROCS="1", GOGC="400")  # of the server; see gcs.py
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else args.work
    with tempfile.TemporaryDirectory(dir=args.work) as work, tempfile.TemporaryDirectory(dir=memory) as objects:
        small, large = Path(work) / "small", Path(work) / "large"
        build(link_copies(args.photos, Path(work) / "photos", args.copies), small, "--image_size", "224")
        with running_fake_gcs_server(Path(objects)) as url:
            os.environ["STORAGE_EMULATOR_HOST"] = url
            from_bucket(small, args.seconds)
        large.mkdir()
        on_disk(small, large, args.shards, args.seconds)


if __name__ == "__main__":
    main()
