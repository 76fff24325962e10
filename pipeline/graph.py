"""The graph on one screen, and its run.

List, label, count, claim, assign, encode, reconcile, find duplicates, pack, compose, commit.
"""

import os
from typing import Any, TextIO

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from apache_beam.pvalue import PCollection

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.dataflow.codec_pins import codecs_pinned
from shardfeed.pipeline.dataflow.preflight import check_job
from shardfeed.pipeline.dataflow.run import prepare, run_on_dataflow
from shardfeed.pipeline.dataflow.submission import DataflowRunner
from shardfeed.pipeline.dataflow.workers import encode_threads
from shardfeed.pipeline.engines.prism import OwnPrismRunner
from shardfeed.pipeline.engines.quiet import Said, kept
from shardfeed.pipeline.engines.run import run_and_wait
from shardfeed.pipeline.report.submitted import Submitted
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.publish.manifest_commit import RunRecord
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps.assign_parts import AssignParts
from shardfeed.transforms.steps.claim_output import ClaimOutput
from shardfeed.transforms.steps.commit import Commit, Sweep
from shardfeed.transforms.steps.compose_shards import ComposeShards
from shardfeed.transforms.steps.count_images import CountImages
from shardfeed.transforms.steps.encode_parts import EncodeParts
from shardfeed.transforms.steps.find_duplicates import FindDuplicates
from shardfeed.transforms.steps.join_rows import JoinRows
from shardfeed.transforms.steps.label_images import LabelImages
from shardfeed.transforms.steps.list_images import ListImages
from shardfeed.transforms.steps.list_unmatched import ListUnmatched
from shardfeed.transforms.steps.pack_shards import PackShards
from shardfeed.transforms.steps.reconcile import Reconcile
from shardfeed.transforms.steps.write_rejects import Proceed, WriteRejects


def build(pipeline: beam.Pipeline, config: BuildConfig, record: RunRecord, run: Run) -> PCollection[int]:
    """Adds the whole job to ``pipeline``.

    Gives, after everything else, the number of leftovers that could not be swept.
    """
    options = config.options
    sources = tuple(root.url for root in config.roots)
    threads = encode_threads(config.engine, config.threads)

    listed = pipeline | "ListImages" >> ListImages(roots=config.roots, image=options.image, run=run)
    if config.table is not None:
        listed = listed | "JoinRows" >> JoinRows(table=config.table, run=run)
    labelled = listed | "LabelImages" >> LabelImages(options=options)
    unmatched = None if config.table is None else labelled | "ListUnmatched" >> ListUnmatched()
    totals = labelled | "CountImages" >> CountImages(options=options)
    plan = totals | "ClaimOutput" >> ClaimOutput(options=options, unmatched=config.max_unmatched, run=run)

    grouped = labelled | "AssignParts" >> AssignParts(plan=plan, seed=options.seed)
    settings = EncoderSettings(
        sources,
        options,
        run,
        threads,
        encoders=1 if config.engine.is_dataflow else 0,
        previous=config.retry_rejects or "",
        image_timeout=config.image_timeout,
        max_rejected=config.max_rejected.images,
    )
    parts = grouped | "EncodeParts" >> EncodeParts(plan=plan, settings=settings)

    verdict = parts | "Reconcile" >> Reconcile(totals=totals, plan=plan, limit=config.max_rejected, run=run)
    rejects = verdict | "WriteRejects" >> WriteRejects(plan=plan, run=run)
    good = verdict | "Proceed" >> Proceed(rejects=rejects, run=run)

    found = good | "FindDuplicates" >> FindDuplicates(
        plan=plan, look=options.duplicates, fail=config.fail_on_duplicates, run=run
    )

    shards = (
        parts
        | "PackShards" >> PackShards(verdict=good, plan=plan, shard_bytes=options.shard_bytes)
        | "ComposeShards" >> ComposeShards(plan=plan, duplicates=found, options=options, run=run)
    )
    published = good | "Commit" >> Commit(
        totals=totals,
        plan=plan,
        shards=shards,
        rejects=rejects,
        duplicates=found,
        unmatched=unmatched,
        options=options,
        record=record,
        run=run,
    )
    return published | "Sweep" >> Sweep(run=run, keep_parts=config.keep_parts)


def run_graph(
    config: BuildConfig, record: RunRecord, run: Run, progress: TextIO | None, said: Said
) -> Submitted | None:
    """Runs the graph on the engine: to its end, or, if nobody waits, gives the submitted job.

    Raises:
        UsageError: Beam refuses the runner or the options.
        IncompleteError: the engine cannot be reached, or was lost.
        Exception: whatever an engine makes of a failure in a step.
    """
    engine = config.engine
    with kept(said):
        options = PipelineOptions(list(engine.args), save_main_session=False)
        setup = options.view_as(SetupOptions)
        if setup.setup_file:  # Beam changes to its folder, and "setup.py" has none
            setup.setup_file = os.path.abspath(setup.setup_file)
        if engine.is_dataflow:
            check_job(engine, roots=config.roots, output=config.output, cross_region=config.cross_region)
            prepare(options, run, progress, threads=encode_threads(engine, config.threads))
        runner: Any = engine.runner
        if engine.kind == "direct":
            runner = "FnApiRunner"  # Beam's own "DirectRunner" would first look for a Go program on the network
        elif engine.kind == "prism":
            runner = OwnPrismRunner()
        elif engine.is_dataflow:
            runner = DataflowRunner()
        try:
            pipeline = beam.Pipeline(runner=runner, options=options)
        except (ValueError, ImportError, AttributeError) as error:  # the last: a module without such a runner
            raise UsageError(f"Beam refuses --runner {engine.label} with these options: {error}") from None
        os.rmdir(pipeline.local_tempdir)  # Beam's, for transforms of other languages; a killed build would leave it
        build(pipeline, config, record, run)
        with codecs_pinned(engine, config.options.image):
            if engine.is_dataflow:
                return run_on_dataflow(pipeline, options, engine, run, progress)
            return run_and_wait(pipeline, engine, run, progress)
