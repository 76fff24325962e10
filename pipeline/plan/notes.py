"""The notes of ``shardfeed plan``: what the build would meet, and where it would stop.

A note says what the build's own check would say, with its exit code. It is sure of that only if
another sample could not say otherwise: if three images of a class cannot be used, a fourth may be
good.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from shardfeed.errors import ConflictError, TooManyRejectsError, clip
from shardfeed.format import naming
from shardfeed.pipeline.dataflow.workers import MACHINE_TYPE, parse_machine_type
from shardfeed.pipeline.plan.cost import DEFAULT_MACHINE, ENGINE_CPU, READ_SECONDS
from shardfeed.pipeline.plan.sample import Calibration
from shardfeed.runtime import memory
from shardfeed.transforms.elements import Plan, Totals, add_counts
from shardfeed.transforms.images.rejects import Reason
from shardfeed.transforms.inputs.labels import labeller
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import (
    CLAIMED,
    REMEDY_CLAIM,
    claim_of,
    describe_conflict,
    read_claim,
)
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.words import human_bytes, plural, some_of

BUILD_BYTES = 200_000_000  # of a local build, however many images it lists
IMAGE_BYTES = 200  # at most, per listed image of a local build (benchmarks/memory.py)
SEVERAL = 3  # images of a class that were read and cannot be used, before that is worth a note
MOST_THREADS = 64  # connections of a process (shardfeed.storage.object_clients)
_SHOWN = 10  # classes, as in the build's own message


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the user. ``code``: exit code if the build would surely end for this, else 0."""

    text: str
    code: int = 0


def about_output(
    store: WritableStore, plan: Plan, *, options: BuildOptions, digest: int, discard: bool
) -> Iterator[Note]:
    """What is in the output already; ``digest``: of the listing."""
    removes = Note("the output holds an unfinished build, which the build would remove first (--discard_incomplete)")
    keeps = (
        "the build would stop (exit 5): the output is a complete dataset, which --discard_incomplete does not remove"
    )
    same = Note("the output holds this very dataset: a build there changes nothing (exit 0)")
    if store.stat(naming.MANIFEST) is not None:
        yield Note(keeps, ConflictError.code) if discard else same
    elif store.stat(naming.CLAIM) is not None:
        yield removes if discard else _about_claim(store, plan, options, digest)


def _about_claim(store: WritableStore, plan: Plan, options: BuildOptions, digest: int) -> Note:
    claim = read_claim(store)
    if claim.discarding:
        return Note(
            "another command is discarding the unfinished build in the output, or was stopped while it did: until that has "
            "ended a build there stops (exit 5), unless it discards too (--discard_incomplete)",
            ConflictError.code,
        )
    if claim.fingerprint == plan.fingerprint:
        return Note(
            "the output holds an unfinished build of this input with these options, which the build would carry on; see "
            f"shardfeed status {store.url}"
        )
    ours = claim_of(plan, options, digest)
    conflict = describe_conflict(store.url, CLAIMED, claim, ours, remedy=REMEDY_CLAIM)
    return Note(f"the build would stop (exit 5): {conflict}", ConflictError.code)


def about_memory(images: int) -> Iterator[Note]:
    """A local build keeps a reference of every image, and these do not fit into the memory here."""
    needed, here = BUILD_BYTES + images * IMAGE_BYTES, memory()
    if here is not None and needed > here:
        yield Note(
            f"a build on this machine would need about {human_bytes(needed)} of memory for {images:,} images, and it may use "
            f"{human_bytes(here)}. Use an engine whose workers share the listing: run_dataflow.sh, or another --runner "
            "(docs/how-to/engines.md)"
        )


def about_rejects(sample: Calibration, *, allowed: int) -> Iterator[Note]:
    """A split without a record, or more rejects than are allowed."""
    splits = sample.splits.values()
    expected, sure = sum(split.rejects for split in splits), sum(split.sure_rejects for split in splits)
    for name, split in sample.splits.items():
        if split.rejects == split.images:
            yield _nothing_published(
                f"none of the images read for {name} can be used:", sure=split.sure_rejects == split.images
            )
    if expected > allowed:
        rejects = f"about {expected:,} images would be rejected and --max_rejected allows {allowed:,}:"
        yield _nothing_published(rejects, sure=sure > allowed)


def about_classes(sample: Calibration, totals: Totals, options: BuildOptions) -> Iterator[Note]:
    """A class without a record, whatever --max_rejected allows."""
    listed = add_counts(*({name: n for name, (n, _) in split.by_class.items()} for split in totals.splits.values()))
    labels_of = labeller(options).labels_of
    trials = [(name, trial.reason) for ref, trial in sample.trials for name in labels_of(ref.key, ref.row)]
    read = Counter(name for name, reason in trials if reason != Reason.CHANGED.value)  # it may be whole by then
    good = {name for name, reason in trials if reason is None}
    lost = [name for name in sorted(read) if name not in good and read[name] >= min(SEVERAL, listed[name])]
    if lost and good:  # without any good image the split's own note says it
        shown = some_of([f"{clip(name, 60)} ({read[name]:,} of {listed[name]:,} read)" for name in lost], _SHOWN)
        yield _nothing_published(
            f"no image that was read of {plural(len(lost), 'class', 'es')} can be used: {shown}; with a class "
            "that gives no record",
            sure=any(read[name] == listed[name] for name in lost),
        )


def _nothing_published(why: str, *, sure: bool) -> Note:
    code = TooManyRejectsError.code
    return Note(f"{why} the build {'would' if sure else 'may'} publish nothing (exit {code})", code if sure else 0)


def about_machine(machine_type: str | None) -> Iterator[Note]:
    """The cost is not that of the machine type asked for, because its size is not known."""
    if machine_type and parse_machine_type(machine_type) is None:
        yield Note(
            f"machine type {clip(machine_type, 60)}: its size is not known here; hours and dollars are those of {MACHINE_TYPE} "
            f"({DEFAULT_MACHINE.vcpus} vCPUs)"
        )


def about_threads(cpu_seconds: float, threads: int) -> Iterator[Note]:
    """A vCPU would wait for images longer than it works on them; more threads would help."""
    work = cpu_seconds * ENGINE_CPU
    enough = min(math.ceil(READ_SECONDS / max(work, 1e-6)), MOST_THREADS)
    if enough > threads:
        yield Note(
            f"on Dataflow {threads} threads per vCPU wait {1_000 * READ_SECONDS / threads:.1f} ms for an image on which it works "
            f"{1_000 * work:.1f} ms; --threads {enough} takes fewer vCPU-hours"
        )
