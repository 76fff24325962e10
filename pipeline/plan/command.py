"""``shardfeed plan``: what a build with these flags would give and take; nothing is written, and Beam is not needed.

Counts come from a listing like the build's own, by the same functions, so the errors that it shows are the build's too. Bytes and
seconds come from a sample that is read and encoded for real.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from shardfeed.errors import ShardfeedError, UsageError
from shardfeed.format import naming
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.dataflow.preflight import check_job
from shardfeed.pipeline.output.folder import check_folder
from shardfeed.pipeline.plan.cost import about_machine, about_threads, cloud_cost
from shardfeed.pipeline.plan.forecast import Forecast, SplitForecast
from shardfeed.pipeline.plan.notes import Note, about_classes, about_memory, about_output, about_rejects, holds_dataset
from shardfeed.pipeline.plan.sample import SAMPLE_IMAGES, Calibration, Sampler, SplitSample, calibrate
from shardfeed.transforms import stores
from shardfeed.transforms.elements import Plan, SplitPlan, SplitTotals, Totals
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.encode.threads import REMOTE_THREADS, default_threads
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.inputs.labels import parse_splits
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.roots import InputRoot, check_root
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import Claim, read_claim, refuse_foreign
from shardfeed.transforms.planning.plan import make_plan, shards_for_bytes
from shardfeed.transforms.planning.totals import add_totals, count_batch, label_batch
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.stores.base import WritableStore

LOCAL_START_SECONDS = 0.5  # imports, and the processes of the pool
BEAM_START_SECONDS = 3.0  # importing Beam and making the graph (docs/decisions.md)
BUILD_RATE = 0.9  # of the bare encoding rate that a whole build reaches (benchmarks/results.md)


class NoForecastError(ShardfeedError):
    """More files are listed than the caller wishes to wait for; nothing is wrong with them."""

    code = 0


def plan_build(config: BuildConfig, *, sample: int = SAMPLE_IMAGES, list_at_most: int | None = None) -> Forecast:
    """Lists the input, encodes ``sample`` of its images, and forecasts the build.

    Raises:
        ShardfeedError: what the build itself would stop with before it encodes.
        NoForecastError: the input holds more than ``list_at_most`` files.
    """
    options = config.options
    if config.engine.is_dataflow:
        check_job(config.engine, roots=config.roots, output=config.output, anywhere=config.cross_region)
    if os.path.isdir(config.output):  # else it would look whether a folder can be made there
        check_folder(config.output)
    for root in config.roots:
        check_root(root, open_source(root.url))
    store = stores.open_output(config.output)
    claim = _claim_of(store, discard=config.discard_incomplete)
    rule = parse_splits(options.splits)
    sampler = Sampler(len(rule.bounds) or 3, sample)
    began = time.perf_counter()
    if list_at_most is not None and list_at_most < 1:
        raise UsageError(
            f"--list_at_most {list_at_most}: give a number of files from 1 on, or leave it out to list all."
        )
    totals = add_totals(_counted(config.roots, options, sampler, list_at_most))
    listing_seconds = time.perf_counter() - began
    plan = make_plan(totals, options, codec_versions(options.image))
    urls = [root.url for root in config.roots]
    threads = config.threads or default_threads(urls)
    encoder = SliceEncoder(sources=urls, plan=plan, options=options, run=Run("plan", config.output), threads=threads)
    try:
        found = calibrate(encoder, sampler.chosen(), threads)
    finally:
        encoder.close()
    discard = config.discard_incomplete
    notes = [*about_output(store, claim, plan, options=options, digest=totals.digest, discard=discard)]
    if config.engine.is_local:
        notes += about_memory(totals.candidates)
    if not holds_dataset(store, discard=discard):
        notes += [
            *about_rejects(found, allowed=config.max_rejected.images(plan.candidates)),
            *about_classes(found, totals, rule),
        ]
    return _forecast(config, totals, plan, found, threads, listing_seconds, notes)


def _claim_of(store: WritableStore, *, discard: bool) -> Claim | None:
    """The claim that a build would meet in the output; where a dataset is there already, it looks for none.

    Raises:
        ConflictError: files that are not a build's, or a claim that is damaged.
        UsageError: the output is a file, or lies below one.
    """
    if store.stat(naming.MANIFEST) is not None:
        return None
    refuse_foreign(store)
    if discard or store.stat(naming.CLAIM) is None:  # with a discard it goes, whatever it says
        return None
    return read_claim(store)


def _counted(
    roots: tuple[InputRoot, ...], options: BuildOptions, sampler: Sampler, list_at_most: int | None
) -> Iterator[Totals]:
    listed = 0
    for batch in list_all(roots):
        for labelled in label_batch(batch, options):
            sampler.add(labelled)
            totals = count_batch(labelled, options)
            listed += totals.candidates + sum(totals.skipped.values())
            if list_at_most is not None and listed > list_at_most:
                raise NoForecastError(
                    f"no forecast: the input holds more than {list_at_most:,} files, where --list_at_most ends the listing. "
                    "Addresses and output were checked; labels, rejects, bytes, time and cost were not. Without "
                    "--list_at_most, plan lists everything, which can take minutes per million files."
                )
            yield totals


def _forecast(
    config: BuildConfig,
    totals: Totals,
    plan: Plan,
    found: Calibration,
    threads: int,
    listing_seconds: float,
    notes: list[Note],
) -> Forecast:
    machine_type = config.engine.arg("worker_machine_type") or config.engine.arg("machine_type")
    splits = {
        name: _split(totals.splits[name], planned, found.splits[name], config.options.shard_bytes)
        for name, planned in plan.splits.items()
    }
    listed = totals.candidates + sum(totals.skipped.values())
    threads_there = config.threads or REMOTE_THREADS
    cloud = cloud_cost(
        images=totals.candidates,
        listed=listed,
        cpu_seconds=found.cpu_seconds,
        parts=sum(split.parts for split in splits.values()),
        shards=[-(-split.parts // split.shards) for split in splits.values() for _ in range(split.shards)],
        threads=threads_there,
        machine_type=machine_type,
        max_workers=config.engine.arg("max_num_workers") or config.engine.arg("num_workers"),
    )
    there = about_threads(found.cpu_seconds, threads_there) if config.engine.is_dataflow else ()
    return Forecast(
        inputs=[root.url for root in config.roots],
        output=config.output,
        listed=listed,
        skipped=totals.skipped,
        splits=splits,
        classes=plan.classes,
        sampled=found.images,
        rejected=found.rejected,
        threads=threads,
        rate=found.rate,
        seconds=(LOCAL_START_SECONDS if config.engine.is_local else BEAM_START_SECONDS)
        + listing_seconds
        + totals.candidates / found.rate / BUILD_RATE,
        cloud=cloud,
        notes=[*(note.text for note in notes), *about_machine(machine_type), *there],
        code=max((note.code for note in notes), default=0),  # a conflict's is the largest, and what a build meets first
    )


def _split(totals: SplitTotals, planned: SplitPlan, sample: SplitSample, shard_bytes: int) -> SplitForecast:
    images = totals.images
    records, size = images - sample.rejects, sample.bytes
    # Part membership is a hash, so some parts of a small split get no image; those are never made.
    parts = max(round(planned.parts * (1 - (1 - 1 / planned.parts) ** images)), 1)
    shards = (planned.shards or shards_for_bytes(size, records, shard_bytes)) if records else 0
    by_class = {name: count for name, (count, _) in sorted(totals.by_class.items())}
    return SplitForecast(images, records, size, sample.error, parts, min(shards, parts), by_class)
