"""The graph, on one screen: list, label, count, claim, assign, encode, reconcile, pack, compose, commit."""

import apache_beam as beam
from apache_beam.pvalue import PCollection

from pipeline.config import BuildConfig
from pipeline.dataflow_workers import encode_threads
from pipeline.worker_helpers import helpers_of_workers
from transforms.assign_parts import AssignParts
from transforms.claim_output import ClaimOutput
from transforms.commit import Commit, Sweep
from transforms.committing import RunRecord
from transforms.compose_shards import ComposeShards
from transforms.count_images import CountImages
from transforms.encode_parts import EncodeParts
from transforms.label_images import LabelImages
from transforms.list_images import ListImages
from transforms.outcome import Output
from transforms.pack_shards import PackShards
from transforms.reconcile import Reconcile
from transforms.write_rejects import Proceed, WriteRejects


def build(pipeline: beam.Pipeline, config: BuildConfig, run: RunRecord) -> PCollection[int]:
    """Adds the whole job to ``pipeline``; gives the number of leftovers that could not be swept, after everything else."""
    options, output = config.options, Output(config.output, run.run_id)
    sources = tuple(root.url for root in config.roots)

    labelled = (
        pipeline
        | "ListImages" >> ListImages(config.roots, image=options.image, output=output)
        | "LabelImages" >> LabelImages(options)
    )
    totals = labelled | "CountImages" >> CountImages(options)
    plan = totals | "ClaimOutput" >> ClaimOutput(options, output=output)

    grouped = labelled | "AssignParts" >> AssignParts(plan, seed=options.seed)
    threads = encode_threads(config.engine, config.threads)
    encoders = 1 if config.engine.is_dataflow else 0
    parts = grouped | "EncodeParts" >> EncodeParts(
        plan, sources, options, threads, encoders, output, helpers_of_workers(config)
    )

    verdict = parts | "Reconcile" >> Reconcile(totals, plan, config.max_rejected)
    rejects = verdict | "WriteRejects" >> WriteRejects(plan, output)
    good = verdict | "Proceed" >> Proceed(rejects, output)

    shards = (
        parts
        | "PackShards" >> PackShards(good, plan, options.shard_bytes)
        | "ComposeShards" >> ComposeShards(plan, output)
    )
    published = good | "Commit" >> Commit(totals, plan, shards, rejects, options, run, output)
    return published | "Sweep" >> Sweep(output, config.keep_parts)
