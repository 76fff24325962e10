"""The graph, on one screen: list, label, count, claim, assign, encode, reconcile, pack, compose, commit."""

import apache_beam as beam
from apache_beam.pvalue import PCollection

from pipeline.config import BuildConfig
from pipeline.dataflow_workers import encode_threads
from transforms.assign_parts import AssignParts
from transforms.claim_output import ClaimOutput
from transforms.commit import Commit, Sweep
from transforms.committing import RunRecord
from transforms.compose_shards import ComposeShards
from transforms.count_images import CountImages
from transforms.encode_parts import EncodeParts
from transforms.label_images import LabelImages
from transforms.list_images import ListImages
from transforms.pack_shards import PackShards
from transforms.reconcile import Reconcile
from transforms.run_state import Run
from transforms.write_rejects import Proceed, WriteRejects


def build(pipeline: beam.Pipeline, config: BuildConfig, record: RunRecord, run: Run) -> PCollection[int]:
    """Adds the whole job to ``pipeline``; gives the number of leftovers that could not be swept, after everything else."""
    options = config.options
    sources = tuple(root.url for root in config.roots)

    labelled = (
        pipeline
        | "ListImages" >> ListImages(config.roots, image=options.image, run=run)
        | "LabelImages" >> LabelImages(options)
    )
    totals = labelled | "CountImages" >> CountImages(options)
    plan = totals | "ClaimOutput" >> ClaimOutput(options, run=run)

    grouped = labelled | "AssignParts" >> AssignParts(plan, seed=options.seed)
    threads = encode_threads(config.engine, config.threads)
    encoders = 1 if config.engine.is_dataflow else 0
    parts = grouped | "EncodeParts" >> EncodeParts(plan, sources, options, threads, encoders, run)

    verdict = parts | "Reconcile" >> Reconcile(totals, plan, config.max_rejected, run)
    rejects = verdict | "WriteRejects" >> WriteRejects(plan, run)
    good = verdict | "Proceed" >> Proceed(rejects, run)

    shards = (
        parts
        | "PackShards" >> PackShards(good, plan, options.shard_bytes)
        | "ComposeShards" >> ComposeShards(plan, run)
    )
    published = good | "Commit" >> Commit(totals, plan, shards, rejects, options, record, run)
    return published | "Sweep" >> Sweep(run, config.keep_parts)
