"""The local build: the graph's steps in a row, in this process and its pool, without Beam.

Every decision is a function of ``transforms`` that the graph calls too. This file holds their
order. It keeps the references of all images between listing and encoding: about 100 bytes per
image.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace

from shardfeed import storage
from shardfeed.format import naming
from shardfeed.format.hashing import hash64
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.pool.pool import Part, Pool, make_parts
from shardfeed.runtime import cores
from shardfeed.transforms import stores
from shardfeed.transforms.elements import Counts, PartFile, Plan, RefBatch, Totals
from shardfeed.transforms.encode.part_encoder import open_encoder
from shardfeed.transforms.encode.slices import EncoderSettings
from shardfeed.transforms.encode.threads import default_threads
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.inputs.listing import list_sections, sections_of
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import claim_output, require_unpublished
from shardfeed.transforms.planning.assign import split_by_part
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.planning.totals import add_totals, count_batch, label_batch
from shardfeed.transforms.publish.composing import compose_shards
from shardfeed.transforms.publish.manifest_commit import RunRecord, commit, drop_claim, leftovers, sweep
from shardfeed.transforms.publish.packing import part_file, plan_shards
from shardfeed.transforms.publish.rejects_files import plan_rejects, write_rejects
from shardfeed.transforms.publish.verdict import counts_of, judge, require_good, sum_counts
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run

MOST_PROCESSES = 15  # beside this one; about 60 MB each
IMAGES_PER_PROCESS = 100  # for fewer, a process would start longer than it works
_PIECE = 1 << 20  # bytes of references that are kept as one object

_Parts = dict[tuple[str, int], bytearray]
"""Packed references by split and number of the part."""


def build_here(config: BuildConfig, record: RunRecord, run: Run) -> None:
    """Makes the dataset and publishes it.

    Raises:
        ShardfeedError: with exit code and message for the user, as ``run.outcome`` has them.
    """
    options, store = config.options, stores.open_output(run.output)
    sources = [root.url for root in config.roots]
    threads = config.threads or default_threads(sources)
    with reported(run), contextlib.closing(Pool()) as pool:
        run.enter("listing")
        references = _References()
        totals = add_totals(_counted(config.roots, options, threads, references, pool, run))
        plan = make_plan(totals, options, codec_versions(options.image))
        claimed = claim_output(store, plan, options, totals.digest)
        run.total = totals.candidates

        run.enter("encoding")
        parts = references.by_part(plan, options.seed)
        files: dict[str, list[PartFile]] = {}
        # A run that joins another begins elsewhere: the other one began with the first part.
        start = 0 if claimed else hash64("start", 0, run.run_id.encode())
        settings = EncoderSettings(sources, options, run, threads)
        # In a bucket each look costs a request, so only a build that joined another looks.
        look = not (claimed and storage.is_remote(run.output))
        counts = sum_counts(_encoded(plan, settings, _in_turn(parts, start), files, pool, look=look))

        run.enter("publishing")
        verdict = judge(counts, totals, plan, config.max_rejected)
        rejects = [write_rejects(store, plan.fingerprint, file, verdict) for file in plan_rejects(verdict)]
    with reported(run, sorted(file.file for file in rejects)):
        require_good(verdict)
    with reported(run):
        planned = [plan_shards(split, parts, plan, options.shard_bytes) for split, parts in files.items()]
        shards = compose_shards(run, plan, options.image.format, itertools.chain(*planned))
        run.check()
        commit(
            store,
            plan=plan,
            totals=totals,
            counts=verdict.counts,
            shards=shards,
            rejects=rejects,
            options=options,
            record=record,
        )
    run.enter("sweeping")
    for names in leftovers(store, naming.outcome_name(run.run_id), keep_parts=config.keep_parts):
        sweep(store, names)
    drop_claim(store)


class _References:
    """The references of all images, in a few large objects.

    One object per folder would cost more than the references in it.
    """

    def __init__(self) -> None:
        self._growing: dict[str, bytearray] = {}
        self._full: list[tuple[str, bytes]] = []

    def add(self, batch: RefBatch) -> None:
        """Takes a labelled batch."""
        growing = self._growing.setdefault(batch.split, bytearray())
        growing += batch.refs
        if len(growing) >= _PIECE:
            self._full.append((batch.split, bytes(growing)))
            growing.clear()

    def by_part(self, plan: Plan, seed: int) -> _Parts:
        """The references by part. They are removed here, so that none is held twice."""
        parts: _Parts = {}
        self._full += [(split, bytes(refs)) for split, refs in self._growing.items() if refs]
        self._growing.clear()
        while self._full:
            split, refs = self._full.pop()
            for part, packed in split_by_part(refs, plan.splits[split].parts, seed).items():
                parts.setdefault((split, part), bytearray()).extend(packed)
        return parts


def _counted(
    roots: tuple[InputRoot, ...], options: BuildOptions, threads: int, references: _References, pool: Pool, run: Run
) -> Iterator[Totals]:
    """Lists, labels and counts; meanwhile the pool grows with the number of images."""
    images = 0
    for batch in list_sections(roots, sections_of(roots), run.check):
        for labelled in label_batch(batch, options):
            references.add(labelled)
            totals = count_batch(labelled, options)
            images += totals.candidates
            pool.grow(pool_size(threads, images))
            yield totals


def _in_turn(parts: _Parts, start: int) -> Iterator[Part]:
    """The parts in order, from the place ``start`` / 2**64 on, and round. Each leaves ``parts``."""
    names = sorted(parts)
    first = start * len(names) >> 64
    for name in names[first:] + names[:first]:
        yield *name, [bytes(parts.pop(name))]


def _encoded(
    plan: Plan,
    settings: EncoderSettings,
    parts: Iterator[Part],
    files: dict[str, list[PartFile]],
    pool: Pool,
    *,
    look: bool,
) -> Iterator[Counts]:
    """Makes the parts and counts each; ``files`` gets the size of each, by split.

    All processes share the threads of ``settings``. ``look``: after each part that was made, look
    whether another run has published the dataset.
    """
    run, threads, store = settings.run, settings.threads, stores.open_output(settings.run.output)
    others = pool_size(threads, plan.candidates)
    each = threads // (others + 1)
    pool.open(plan, replace(settings, threads=each, processes=others + 1))
    with open_encoder(plan, replace(settings, threads=threads - others * each, processes=others + 1)) as here:
        try:
            for result, kept in make_parts(parts, here, pool, run):
                run.add(result, kept=kept)
                if look and not kept:
                    require_unpublished(store, plan.fingerprint)
                files.setdefault(result.split, []).append(part_file(result))
                yield counts_of(result)
        except BaseException:  # Ctrl-C too: nobody waits for images in hand
            run.stop.set()
            raise


def pool_size(threads: int, images: int) -> int:
    """Number of processes beside this one: one per further core, if threads and images suffice."""
    return min(threads, cores(), MOST_PROCESSES + 1, 1 + images // IMAGES_PER_PROCESS) - 1
