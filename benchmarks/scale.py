"""The graph with millions of references and no images: time and memory of each step, its largest
element, its largest side input.

The real steps label, count, claim, assign, group, reconcile, pack and commit; only what touches
images and stored parts is replaced: the listing makes references up, the encoding makes results up
(real key sums, about 22 kB an image), and composing publishes empty files under the shards' names,
because the commit looks for those. Then what one process does at 100 M images: packing 350,000
parts into 20,000 shards, the manifest of them, and a verdict in which every part has a reject.
"""

from __future__ import annotations

import argparse
import gc
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner
from common import where  # this repository is found from here on

import shardfeed
import shardfeed.pipeline.graph as graph
from shardfeed.format import naming
from shardfeed.format.checksums import to_hex
from shardfeed.format.hashing import MASK128, hash64, key_hash
from shardfeed.format.manifest import ImageInfo, Manifest, RecordTable, Shard, SideFile, Split
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.storage import Stat
from shardfeed.transforms import stores
from shardfeed.transforms.elements import (
    ImageRef,
    PartFile,
    PartResult,
    Plan,
    RefBatch,
    ShardPlan,
    ShardResult,
    SplitPlan,
    pack_ref,
    unpack_refs,
)
from shardfeed.transforms.inputs.labels import labeller
from shardfeed.transforms.inputs.listing import BATCH_REFS
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.composing import blocks_of
from shardfeed.transforms.publish.manifest_commit import RunRecord
from shardfeed.transforms.publish.mapped_index import put_pieces
from shardfeed.transforms.publish.packing import plan_shards
from shardfeed.transforms.publish.verdict import counts_of, sum_counts
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps import coders
from shardfeed.transforms.steps.compose_shards import ComposeShards
from shardfeed.transforms.steps.encode_parts import EncodeParts
from shardfeed.transforms.steps.list_images import ListImages

CLASSES = 1_000
RECORD_BYTES = 22_000
_TARGET_PACK, _TARGET_MANIFEST, _TARGET_INFO = 30.0, 20e6, 1.0

LARGEST: dict[str, tuple[int, int, int]] = {}  # element -> (bytes of the largest, count, bytes together), as coded
GROUPS = {"largest": 0, "bytes": 0, "count": 0}  # packed references of a part
STAGES: list[tuple[str, float, float, float]] = []  # name, seconds, CPU seconds, peak MB


class MadeUpListing(ListImages):
    """``images`` references in batches as a listing gives them."""

    def __init__(self, images: int, batch: int, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._images, self._batch = images, batch

    def expand(self, begin: beam.pvalue.PBegin) -> beam.pvalue.PCollection[RefBatch]:
        starts = range(0, self._images, self._batch)
        return (
            begin
            | "NameBatches" >> beam.Create(starts, reshuffle=False).with_output_types(int)
            | "MakeUp" >> beam.ParDo(_MakeUp(self._images, self._batch))
        )


class _MakeUp(beam.DoFn):
    def __init__(self, images: int, batch: int) -> None:
        self._images, self._batch = images, batch

    def process(self, start: int) -> Iterable[RefBatch]:
        refs = (
            pack_ref(
                ImageRef(
                    0,
                    b"n%08d/%032x.jpg" % (number % CLASSES, number * 0x9E3779B97F4A7C15),
                    Stat(100_000 + number % 50_000, 1_700_000_000_000_000 + number, number & 0xFFFFFFFF),
                )
            )
            for number in range(start, min(start + self._batch, self._images))
        )
        return [RefBatch("", b"".join(refs))]


class MadeUpParts(EncodeParts):
    """Grouped references to results, without an image."""

    def expand(self, grouped: Any) -> beam.pvalue.PCollection[PartResult]:
        return grouped | "Encode" >> beam.ParDo(_MakeUpPart())


class _MakeUpPart(beam.DoFn):
    def process(self, element: tuple[tuple[str, int], Iterable[bytes]]) -> Iterable[PartResult]:
        (split, part), packed = element
        batches = list(packed)
        held = sum(map(len, batches))
        GROUPS.update(largest=max(GROUPS["largest"], held), bytes=GROUPS["bytes"] + held, count=GROUPS["count"] + 1)
        records = key_sum = size = 0
        counts: dict[str, int] = {}
        for batch in batches:
            for ref in unpack_refs(batch):
                records, key_sum = records + 1, key_sum + key_hash(ref.key)
                size += RECORD_BYTES * 7 // 10 + ref.stat.size % (RECORD_BYTES * 6 // 10)
                (label,) = labeller(BuildOptions()).labels_of(ref.key, ref.row)
                counts[label] = counts.get(label, 0) + 1
        crc = hash64("scale", part, split.encode()) & 0xFFFFFFFF
        return [
            PartResult(split, part, size, records, crc, key_sum & MASK128, {}, {}, counts, (1, (1, 1, 1), (1, 1, 1)))
        ]


class MadeUpShards(ComposeShards):
    """Shard plans to results, without a record."""

    def expand(self, plans: Any) -> beam.pvalue.PCollection[ShardResult]:
        compose = beam.Map(_publish_empty, beam.pvalue.AsSingleton(self.plan), self.run.output)
        return plans | "Compose" >> compose.with_output_types(ShardResult)


def _publish_empty(shard: ShardPlan, plan: Plan, url: str) -> ShardResult:
    """The commit compares the names it is given with those in the store; nothing here reads what is
    in the files, but in the pieces of the index.
    """
    result, store = _shard(shard), stores.open_output(url)
    zeros = np.zeros(result.records)
    crcs = put_pieces(store, plan.fingerprint, result.file, zeros, zeros)
    for name in (result.file, naming.index_name(result.file), naming.table_name(result.file)):
        store.create(name, b"")
    return replace(result, offsets_crc32c=crcs[0], classes_crc32c=crcs[1])


def _shard(plan: ShardPlan) -> ShardResult:
    name = naming.shard_name(plan.split, plan.index, plan.count)
    records, size = sum(part.records for part in plan.parts), sum(part.bytes for part in plan.parts)
    blocks, crc = blocks_of(plan.parts), plan.index
    return ShardResult(plan.split, name, records, size, crc, blocks, 16 * records, crc, crc, crc, f"{crc:032x}")


def _memory(field: str) -> float:
    """MB that ``/proc`` says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@contextmanager
def _measured() -> Iterator[None]:
    """Notes each stage's time and peak memory, and each coded element's size."""
    execute, encode = fn_runner.FnApiRunner._execute_bundle, coders.ElementCoder.encode

    def stage(self: Any, context: Any, bundle: Any, *more: Any) -> Any:
        _forget_peak()
        began, cpu = time.perf_counter(), time.process_time()
        result = execute(self, context, bundle, *more)
        spent = time.perf_counter() - began, time.process_time() - cpu
        STAGES.append((_stage_name(bundle.stage), *spent, _memory("VmHWM")))
        return result

    def sized(self: Any, value: Any) -> bytes:
        data = encode(self, value)
        most, count, total = LARGEST.get(type(value).__name__, (0, 0, 0))
        LARGEST[type(value).__name__] = max(most, len(data)), count + 1, total + len(data)
        return data

    fn_runner.FnApiRunner._execute_bundle, coders.ElementCoder.encode = stage, sized  # type: ignore[method-assign]
    try:
        yield
    finally:
        fn_runner.FnApiRunner._execute_bundle, coders.ElementCoder.encode = execute, encode  # type: ignore[method-assign]


def _stage_name(stage: Any) -> str:
    """Our steps in a fused stage: ``LabelImages/Label + CountImages/CountBatches``."""
    seen = dict.fromkeys(
        "/".join(transform.unique_name.split("/")[:2])
        for transform in stage.transforms
        if not transform.spec.urn.startswith(("beam:runner:", "beam:transform:impulse"))
    )
    return " + ".join(seen) or stage.name


def run_graph(images: int, batch: int, out: Path) -> None:
    """The whole graph, and a table of its stages."""
    # Each takes what the step it replaces takes, so that the graph can change how it makes them.
    made_up: dict[str, Any] = {
        "ListImages": partial(MadeUpListing, images, batch),
        "EncodeParts": MadeUpParts,
        "ComposeShards": MadeUpShards,
    }
    config = BuildConfig(inputs=(str(out.parent / "in"),), output=str(out), options=BuildOptions(duplicates=False))
    began, cpu, base = time.perf_counter(), time.process_time(), _memory("VmRSS")
    with mock.patch.multiple(graph, **made_up), _measured():
        built = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([], save_main_session=False))
        graph.build(built, config, RunRecord("run", "now", config.inputs, "DirectRunner"), Run("run", config.output))
        built.run().wait_until_finish()
    seconds = time.perf_counter() - began
    print(f"{images:,} references in batches of {batch:,}: {seconds:.1f} s, {time.process_time() - cpu:.1f} s of CPU")
    print(f"{'seconds':>9} {'CPU':>7} {'peak MB':>8}  step")
    for name, wall, spent, peak in STAGES:
        if wall >= seconds / 200:
            print(f"{wall:9.2f} {spent:7.2f} {peak:8.0f}  {name}")
    peak = max(peak for *_, peak in STAGES)
    print(
        f"memory: {base:.0f} MB before, {peak:.0f} MB at the peak, {(peak - base) * 2**20 / images:.0f} bytes an image"
    )
    print(f"{'largest':>10} {'count':>9} {'together':>14}  element, in bytes as coded")
    groups = GROUPS["largest"], GROUPS["count"], GROUPS["bytes"]
    for name, (largest, count, total) in sorted([*LARGEST.items(), ("references of a part", groups)]):
        side = {
            "Plan": "side input",
            "Totals": "side input",
            "Verdict": "side input",
            "ShardResult": "all of them a side input",
        }
        print(f"{largest:10,} {count:9,} {total:14,}  {name}{f' ({side[name]})' if name in side else ''}")


def one_process(parts: int, shards: int) -> None:
    """What a single process does with everything, at its size for 100 M images."""
    rng = random.Random(0)
    files = [
        PartFile(i, rng.randrange(5_400_000, 6_600_000), rng.randrange(260, 320), rng.getrandbits(32))
        for i in range(parts)
    ]
    coded = [file.to_bytes() for file in files]
    _forget_peak()
    base = _memory("VmRSS")
    began, cpu = time.perf_counter(), time.process_time()
    plan = Plan("f", ("cat",), {}, 1, {"train": SplitPlan(parts, shards, 1)})
    plans = plan_shards("train", [PartFile.from_bytes(data) for data in coded], plan, 1)
    sizes = [len(plan.to_bytes()) for plan in plans]
    wall, spent = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"pack {parts:,} parts into {len(plans):,} shards, coding included: {wall:.1f} s, {spent:.1f} s of CPU "
        f"(limit {_TARGET_PACK:.0f} s), {_memory('VmHWM') - base:.0f} MB more, largest plan {max(sizes):,} bytes"
    )
    data = _manifest(plans).to_json()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, naming.MANIFEST).write_bytes(data)
        shardfeed.info  # noqa: B018 (imported before the clock starts)
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        shardfeed.info(folder)
        wall, spent = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"manifest of {len(plans):,} shards: {len(data) / 1e6:.1f} MB (limit {_TARGET_MANIFEST / 1e6:.0f} MB); shardfeed.info "
        f"{wall:.2f} s, {spent:.2f} s of CPU (limit {_TARGET_INFO:.0f} s)"
    )
    began = time.perf_counter()
    results = (
        PartResult("train", i, 6_000_000, 289, 0, i, {"FORMAT": 1}, {}, {"cat": 289}, None) for i in range(parts)
    )
    counts = sum_counts(counts_of(result) for result in results)
    print(
        f"verdict with a reject in each of {parts:,} parts: {len(counts.to_bytes()) / 1e6:.1f} MB, "
        f"{time.perf_counter() - began:.1f} s"
    )


def _manifest(plans: list[ShardPlan]) -> Manifest:
    shards, files, tables = [], [], []
    for made in map(_shard, plans):
        shards.append(Shard(made.file, made.records, made.bytes, to_hex(made.crc32c), made.blocks))
        files.append(SideFile(naming.index_name(made.file), made.index_bytes, to_hex(made.index_crc32c)))
        tables.append(RecordTable(naming.table_name(made.file), made.records, made.table_digest))
    records = sum(shard.records for shard in shards)
    classes = tuple(f"n{number:08}" for number in range(CLASSES))
    counts = {name: records // CLASSES for name in classes}
    counts[classes[0]] += records - sum(counts.values())
    by_class = {name: [count, 100_000 * count] for name, count in counts.items()}
    split = Split(records, sum(shard.bytes for shard in shards), counts, tuple(shards))
    return Manifest(
        fingerprint="f" * 32,
        config={},
        versions={},
        classes=classes,
        listing={"digest": "0" * 32, "by_class": by_class, "by_split": {"train": by_class}},
        listed=records,
        written=records,
        rejected={},
        skipped={},
        fixes={},
        image=ImageInfo(224, 224, 3, "jpeg", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)),
        splits={"train": split},
        files=tuple(files),
        tables=tuple(tables),
    )


def main() -> None:
    """Prints both halves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000, help="references through the graph; 0 leaves it out")
    parser.add_argument("--batch", type=int, default=BATCH_REFS, help="references a batch of the listing")
    parser.add_argument("--parts", type=int, default=350_000)
    parser.add_argument("--shards", type=int, default=20_000)
    parser.add_argument("--work", type=Path, help="where to write (default: a new temporary folder)")
    args = parser.parse_args()
    print(where())
    if args.images:
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            run_graph(args.images, args.batch, Path(work) / "out")
            began = time.perf_counter()
            info = shardfeed.info(Path(work) / "out")
            size = Path(work, "out", naming.MANIFEST).stat().st_size
            print(
                f"{GROUPS['count']:,} parts, {len(info.splits['train'].shards):,} shards, manifest {size / 1e6:.2f} MB, read in "
                f"{time.perf_counter() - began:.2f} s"
            )
    one_process(args.parts, args.shards)


if __name__ == "__main__":
    # By its own name: what Beam pickles must be found again as this very module, not as a copy of
    # __main__.
    from scale import main as run

    run()
