"""The local build: the graph's steps in a row, without Beam. Its pool of processes makes the parts.

Every decision is a function of ``transforms`` that the graph calls too. This file holds their
order. It keeps the references of all images between listing and encoding: about 100 bytes per
image.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from shardfeed import signals, storage
from shardfeed.format import naming
from shardfeed.format.hashing import hash64
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.runtime import cores
from shardfeed.transforms import stores
from shardfeed.transforms.duplicates.find import find_duplicates
from shardfeed.transforms.elements import Counts, Duplicates, PartFile, PartResult, Plan, RefBatch, Totals
from shardfeed.transforms.encode.in_flight import PartsInFlight
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.encode.threads import default_threads
from shardfeed.transforms.inputs.listing import list_sections, sections_of
from shardfeed.transforms.metadata.join_here import join_here
from shardfeed.transforms.metadata.unmatched import UnmatchedKeys
from shardfeed.transforms.output.claim import claim_output, require_unpublished
from shardfeed.transforms.planning.assign import split_by_part
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.planning.stratify import label_all
from shardfeed.transforms.planning.totals import add_totals, count_batch
from shardfeed.transforms.pool.pool import Part, Pool
from shardfeed.transforms.publish.composing import compose_shards
from shardfeed.transforms.publish.manifest_commit import RunRecord, commit, drop_claim, leftovers, sweep
from shardfeed.transforms.publish.packing import part_file, plan_shards
from shardfeed.transforms.publish.rejects_files import plan_rejects, write_rejects
from shardfeed.transforms.publish.verdict import counts_of, judge, require_good, sum_counts
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run

IMAGES_PER_PROCESS = 100  # for fewer, a further process would start longer than it works
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
    with reported(run), contextlib.closing(Pool(fork=signals.is_installed())) as pool:
        run.enter("listing")
        pool.grow(1)
        references, unmatched = _References(), UnmatchedKeys()
        totals = add_totals(_counted(config, threads, references, unmatched, pool, run))
        plan = make_plan(totals, options, pool.codec_versions(options.image, run), config.max_unmatched)
        claimed = claim_output(store, plan, options, totals.digest)
        run.total = totals.candidates

        run.enter("encoding")
        parts = references.by_part(plan, options.seed)
        files: dict[str, list[PartFile]] = {}
        # A run that joins another begins elsewhere: the other one began with the first part.
        start = 0 if claimed else hash64("start", 0, run.run_id.encode())
        settings = EncoderSettings(
            sources,
            options,
            run,
            threads,
            previous=config.retry_rejects or "",
            image_timeout=config.image_timeout,
            max_rejected=config.max_rejected.images,
        )
        # In a bucket each look costs a request, so only a build that joined another looks.
        look = not (claimed and storage.is_remote(run.output))
        counts = sum_counts(_encoded(plan, settings, _in_turn(parts, start), files, pool, look=look))

        run.enter("publishing")
        verdict = judge(counts, totals, plan, config.max_rejected)
        rejects = [write_rejects(store, plan.fingerprint, file, verdict) for file in plan_rejects(verdict)]
    with reported(run, sorted(file.file for file in rejects)):
        require_good(verdict)
    with reported(run):
        fail = config.fail_on_duplicates
        found = find_duplicates(store, plan, verdict.counts, fail=fail) if options.duplicates else Duplicates()
        planned = [plan_shards(split, parts, plan, options.shard_bytes) for split, parts in files.items()]
        shards = compose_shards(run, plan, options, found, itertools.chain(*planned))
        run.check()
        commit(
            store,
            plan=plan,
            totals=totals,
            counts=verdict.counts,
            shards=shards,
            rejects=rejects,
            duplicates=found,
            unmatched=unmatched.lines(),
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
        """Takes a labelled batch, unless its references are skipped or at fault."""
        if batch.fault:
            return
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
    config: BuildConfig, threads: int, references: _References, unmatched: UnmatchedKeys, pool: Pool, run: Run
) -> Iterator[Totals]:
    """Lists, labels and counts; meanwhile the pool grows with the number of images."""
    images, options = 0, config.options
    listed = list_sections(config.roots, sections_of(config.roots), run.check)
    for batch in label_all(join_here(listed, config.table, run.output, run.check), options):
        references.add(batch)
        unmatched.add(batch)
        totals = count_batch(batch, options)
        images += totals.candidates
        pool.grow(pool_size(threads, images))
        yield totals


def _in_turn(parts: _Parts, start: int) -> Iterator[Part]:
    """The parts in order, from the place ``start`` / 2**64 on, and round. Each leaves ``parts``."""
    names = sorted(parts)
    first = start * len(names) >> 64
    for name in names[first:] + names[:first]:
        yield *name, (bytes(parts.pop(name)),)


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

    ``look``: after each part that was made, look whether another run has published the dataset.
    """
    run, store = settings.run, stores.open_output(settings.run.output)
    pool.grow(pool_size(settings.threads, plan.candidates))
    pool.open(plan, settings)
    try:
        for result, kept in _made(parts, PartsInFlight(pool, run)):
            run.add(result, kept)
            if look and kept < result.images:
                require_unpublished(store, plan.fingerprint)
            files.setdefault(result.split, []).append(part_file(result))
            yield counts_of(result)
    except BaseException:  # Ctrl-C too: nobody waits for images in hand
        run.stop.set()
        raise


def _made(parts: Iterator[Part], flying: PartsInFlight) -> Iterator[tuple[PartResult, int]]:
    for part in parts:
        yield from flying.submit(*part)
    yield from flying.flush()


def pool_size(threads: int, images: int) -> int:
    """Number of processes that encode: one per core, if threads and images suffice."""
    return min(threads, cores(), 1 + images // IMAGES_PER_PROCESS)
