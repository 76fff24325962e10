"""What ``shardfeed plan`` notes below its figures: where the build would stop, and what it would find in the output.

The one decision: a note says what the build's own check would say, with its exit code, and is sure of it only where a rerun of
the sample could not say otherwise. Of a class of which three images cannot be used, a fourth still may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from shardfeed.errors import ConflictError, TooManyRejectsError, clip
from shardfeed.format import naming
from shardfeed.pipeline.plan.sample import Calibration
from shardfeed.runtime import memory
from shardfeed.transforms.elements import Plan, Totals, add_counts
from shardfeed.transforms.inputs.labels import SplitRule
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import CLAIMED, REMEDY_CLAIM, Claim, claim_of, describe_conflict
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.words import human_bytes

BASE_BYTES = 200_000_000  # of a local build, whatever it lists
IMAGE_BYTES = 200  # at most, per listed image of a local build (benchmarks/memory.py)
SEVERAL = 3  # images of a class that were read, of which none can be used, before that is worth a note
_SHOWN = 10  # classes, as in the build's own message


@dataclass(frozen=True, slots=True)
class Note:
    """``code``: that the build would end with for this reason, where that is sure; else 0."""

    text: str
    code: int = 0


def about_rejects(found: Calibration, *, allowed: int) -> Iterator[Note]:
    """A split without a record, or more rejects than are allowed."""
    expected = sum(sample.rejects for sample in found.splits.values())
    surely = sum(sample.sure_rejects for sample in found.splits.values())
    for name, sample in found.splits.items():
        if sample.rejects == sample.images:
            yield _nothing_published(f"none of the images read for {name} can be used:", sure=sample.surely_none)
    if expected > allowed:
        rejects = f"about {expected:,} images would be rejected and --max_rejected allows {allowed:,}:"
        yield _nothing_published(rejects, sure=surely > allowed)


def about_memory(images: int) -> Iterator[Note]:
    """A local build keeps a reference of every image; one that does not fit is for an engine with several machines."""
    needed, here = BASE_BYTES + images * IMAGE_BYTES, memory()
    if here is not None and needed > here:
        yield Note(
            f"a build on this machine would need about {human_bytes(needed)} of memory for {images:,} images, and it may use "
            f"{human_bytes(here)}. Use an engine whose workers share the listing: run_dataflow.sh, or another --runner "
            "(docs/engines.md)"
        )


def about_classes(found: Calibration, totals: Totals, rule: SplitRule) -> Iterator[Note]:
    """A class without a record, whatever --max_rejected allows."""
    listed = add_counts(*({name: n for name, (n, _) in split.by_class.items()} for split in totals.splits.values()))
    names = [(rule.class_of(key), usable) for key, usable in found.usable]
    read = Counter(name for name, _ in names)
    good = {name for name, usable in names if usable}
    lost = [name for name in sorted(read) if name not in good and read[name] >= min(SEVERAL, listed[name])]
    if lost and good:  # without any good image the split's own note says it
        shown = ", ".join(f"{clip(name, 60)} ({read[name]:,} of {listed[name]:,} read)" for name in lost[:_SHOWN])
        yield _nothing_published(
            f"no image that was read of {len(lost):,} class(es) can be used: {shown}{', …' * (len(lost) > _SHOWN)}; with a class "
            "that gives no record",
            sure=any(read[name] == listed[name] for name in lost),
        )


def _nothing_published(why: str, *, sure: bool) -> Note:
    code = TooManyRejectsError.code
    return Note(f"{why} the build {'would' if sure else 'may'} publish nothing (exit {code})", code if sure else 0)


def holds_dataset(store: WritableStore, *, discard: bool) -> bool:
    """Whether a build would only look whether the output's dataset is the one asked for."""
    return not discard and store.stat(naming.MANIFEST) is not None


def about_output(
    store: WritableStore, claim: Claim | None, plan: Plan, *, options: BuildOptions, digest: int, discard: bool
) -> Iterator[Note]:
    """What is in the output already; ``claim``: the one that a build would meet there; ``digest``: of the listing."""
    if holds_dataset(store, discard=discard):
        yield Note(
            "the output already holds a dataset: a build there changes nothing (exit 0 where it is this one, else 5)"
        )
    elif store.stat(naming.MANIFEST) is not None:
        yield Note(
            "the build would stop (exit 5): the output is a complete dataset, which --discard_incomplete does not remove",
            ConflictError.code,
        )
    elif discard and store.stat(naming.CLAIM) is not None:
        yield Note("the output holds an unfinished build, which the build would remove first (--discard_incomplete)")
    elif claim is None:
        return
    elif claim.discarding:
        yield Note(
            "an unfinished build in the output is being discarded, or that was stopped: until it has ended a build there stops "
            "(exit 5), unless it discards too (--discard_incomplete)",
            ConflictError.code,
        )
    elif claim.fingerprint != plan.fingerprint:
        ours = claim_of(plan, options, digest)
        conflict = describe_conflict(store.url, CLAIMED, claim, ours, remedy=REMEDY_CLAIM)
        yield Note(f"the build would stop (exit 5): {conflict}", ConflictError.code)
    else:
        yield Note(
            "the output holds an unfinished build of this input with these options, which the build would carry on; see "
            f"shardfeed status {store.url}"
        )
