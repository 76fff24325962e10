"""``shardfeed plan``: what a build with these flags would give and cost, without writing anything.

It needs no Beam. Counts come from a listing like the build's own, by the same functions, so the
errors that it reports are the build's too. Bytes and seconds come from a sample that is read and
encoded for real.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from shardfeed.errors import ShardfeedError, UsageError
from shardfeed.format import naming
from shardfeed.pipeline.already_built import has_manifest, require_same
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.preflight import check_job
from shardfeed.pipeline.output.folder import check_folder
from shardfeed.pipeline.plan import notes
from shardfeed.pipeline.plan.cost import cloud_cost
from shardfeed.pipeline.plan.forecast import Forecast, SplitForecast
from shardfeed.pipeline.plan.sample import SAMPLE_IMAGES, Calibration, Sampler, SplitSample, calibrate
from shardfeed.transforms import stores
from shardfeed.transforms.elements import Plan, SplitPlan, SplitTotals, Totals
from shardfeed.transforms.encode.previous_records import require_reusable
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.encode.threads import REMOTE_THREADS, default_threads
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.lists import open_root
from shardfeed.transforms.inputs.skipped import note_of_skipped
from shardfeed.transforms.inputs.splits import parse_splits
from shardfeed.transforms.metadata.join_here import join_here
from shardfeed.transforms.output.claim import read_claim, refuse_foreign
from shardfeed.transforms.planning.plan import make_plan, shards_for_bytes
from shardfeed.transforms.planning.stratify import label_all
from shardfeed.transforms.planning.totals import add_totals, count_batch
from shardfeed.transforms.run.state import Run
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
        ShardfeedError: an error that the build itself would stop with before it encodes.
        NoForecastError: the input holds more than ``list_at_most`` files.
    """
    if list_at_most is not None and list_at_most < 1:
        raise UsageError(
            f"--list_at_most {list_at_most}: give a number of files from 1 on, or leave it out to list all."
        )
    engine, options = config.engine, config.options
    if engine.is_dataflow:
        check_job(engine, roots=config.roots, output=config.output, cross_region=config.cross_region)
    if config.retry_rejects is not None:
        require_reusable(config.retry_rejects, options)
    for root in config.roots:
        open_root(root).check()
    if os.path.isdir(config.output):  # if it is not there, check_folder would make it for a moment
        check_folder(config.output)
    store = stores.open_output(config.output)
    _refuse_output(store, discard=config.discard_incomplete)
    sampler = Sampler(len(parse_splits(options.splits).bounds) or 3, sample)
    began = time.perf_counter()
    totals = add_totals(_counted(config, sampler, list_at_most))
    listing_seconds = time.perf_counter() - began

    if not config.discard_incomplete and has_manifest(store):
        require_same(config, store, lambda: totals)
    plan = make_plan(totals, options, codec_versions(options.image), config.max_unmatched)
    urls = [root.url for root in config.roots]
    threads = config.threads or default_threads(urls)
    settings = EncoderSettings(urls, options, Run("plan", config.output), threads)
    with contextlib.closing(SliceEncoder(plan, settings)) as encoder:
        found = calibrate(encoder, sampler.chosen(), threads)
    splits = {
        name: _split(totals.splits[name], planned, found.splits[name], options.shard_bytes)
        for name, planned in plan.splits.items()
    }
    start_seconds = LOCAL_START_SECONDS if engine.is_local else BEAM_START_SECONDS
    return Forecast(
        inputs=urls,
        output=config.output,
        totals=totals,
        classes=plan.classes,
        formats=options.image.formats,
        splits=splits,
        sample=found,
        threads=threads,
        seconds=start_seconds + listing_seconds + totals.candidates / found.rate / BUILD_RATE,
        cloud=cloud_cost(
            images=totals.candidates,
            listed=totals.listed,
            cpu_seconds=found.cpu_seconds,
            splits=[(split.parts, split.shards) for split in splits.values()],
            threads=config.threads or REMOTE_THREADS,
            machine_type=_machine_type(engine),
            max_workers=engine.arg("max_num_workers") or engine.arg("num_workers"),
            duplicates=options.duplicates,
        ),
        notes=_notes(config, store, totals, plan, found),
        label_kind=plan.label_kind,
    )


def _notes(
    config: BuildConfig, store: WritableStore, totals: Totals, plan: Plan, found: Calibration
) -> list[notes.Note]:
    engine, options, discard = config.engine, config.options, config.discard_incomplete
    noted = [*notes.about_output(store, plan, options=options, digest=totals.digest, discard=discard)]
    if engine.is_local:
        noted += notes.about_memory(totals.candidates)
    if discard or store.stat(naming.MANIFEST) is None:  # else a build would only check the dataset that is there
        noted += notes.about_rejects(found, allowed=config.max_rejected.images(plan.candidates))
        noted += notes.about_classes(found, totals, options)
    if said := note_of_skipped(config.roots, totals.skipped_sample):
        noted.append(notes.Note(said))
    noted += notes.about_machine(_machine_type(engine))
    if engine.is_dataflow:
        noted += notes.about_threads(found.cpu_seconds, config.threads or REMOTE_THREADS)
    return noted


def _machine_type(engine: Engine) -> str | None:
    return engine.arg("worker_machine_type") or engine.arg("machine_type")


def _refuse_output(store: WritableStore, *, discard: bool) -> None:
    """Refuses an output that the build would refuse before it lists the input.

    Raises:
        ConflictError: files that are not a build's, or a claim that is damaged.
        UsageError: the output is a file, or lies below one.
    """
    if store.stat(naming.MANIFEST) is not None:
        return
    refuse_foreign(store)
    if store.stat(naming.CLAIM) is not None and not discard:  # a discard removes it, whatever it says
        read_claim(store)


def _counted(config: BuildConfig, sampler: Sampler, list_at_most: int | None) -> Iterator[Totals]:
    listed, options = 0, config.options
    for labelled in label_all(join_here(list_all(config.roots), config.table, config.output), options):
        sampler.add(labelled)
        totals = count_batch(labelled, options)
        listed += totals.listed
        if list_at_most is not None and listed > list_at_most:
            raise NoForecastError(
                f"no forecast: the input holds more than {list_at_most:,} files, where --list_at_most ends the listing. "
                "Addresses and output were checked; labels, rejects, bytes, time and cost were not. Without "
                "--list_at_most, plan lists everything, which can take minutes per million files."
            )
        yield totals


def _split(totals: SplitTotals, planned: SplitPlan, sample: SplitSample, shard_bytes: int) -> SplitForecast:
    images = totals.images
    records, size = images - sample.rejects, sample.bytes
    # Part membership is a hash, so some parts of a small split get no image; those are never made.
    parts = max(round(planned.parts * (1 - (1 - 1 / planned.parts) ** images)), 1)
    shards = (planned.shards or shards_for_bytes(size, records, shard_bytes)) if records else 0
    by_class = {name: count for name, (count, _) in sorted(totals.by_class.items())}
    return SplitForecast(images, records, size, sample.error, parts, min(shards, parts), by_class)
