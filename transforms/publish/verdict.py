"""Whether all parts together are the whole listing, and whether too much of it was rejected.

Counts can agree by accident; sums mod 2**128 of the keys' hashes cannot. The limit applies before
anything is composed and is in no fingerprint. So after too many rejects, a rerun with a higher
limit only composes.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardfeed.errors import IncompleteError, TooManyRejectsError, clip
from shardfeed.format.hashing import MASK128
from shardfeed.transforms.elements import Counts, PartResult, Plan, Totals, Verdict, add_counts, add_into
from shardfeed.transforms.images.pixels.stats import Stats, add_stats
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.run.outcome import ENGINE_FAULT
from shardfeed.words import by_count, plural, some_of


def counts_of(part: PartResult) -> Counts:
    """Counts of one part."""
    rejected = sum(part.rejected.values())
    return Counts(
        images={part.split: part.images},
        key_sums={part.split: part.key_sum},
        rejected=part.rejected,
        fixes=part.fixes,
        class_counts={part.split: part.class_counts},
        stats=part.stats,
        rejects_by_part=((part.split, part.part, rejected),) if rejected else (),
    )


def sum_counts(many: Iterable[Counts]) -> Counts:
    """Sum of counts, in any order."""
    images: dict[str, int] = {}
    key_sums: dict[str, int] = {}
    rejected: dict[str, int] = {}
    fixes: dict[str, int] = {}
    class_counts: dict[str, dict[str, int]] = {}
    stats: Stats | None = None
    by_part: list[tuple[str, int, int]] = []
    for counts in many:
        add_into(images, counts.images)
        add_into(fixes, counts.fixes)
        add_into(rejected, counts.rejected)
        for split, key_sum in counts.key_sums.items():
            key_sums[split] = (key_sums.get(split, 0) + key_sum) & MASK128
        for split, by_class in counts.class_counts.items():
            add_into(class_counts.setdefault(split, {}), by_class)
        stats = add_stats(stats, counts.stats)
        by_part += counts.rejects_by_part
    return Counts(images, key_sums, rejected, fixes, class_counts, stats, tuple(sorted(by_part)))


def judge(counts: Counts, totals: Totals, plan: Plan, limit: Limit) -> Verdict:
    """The verdict on all parts: complete, within the limit, and no class or split empty."""
    if lost := _lost(counts, totals):
        return Verdict(IncompleteError.code, lost, counts)
    unusable = _too_many(counts, plan, limit) or _emptied(counts, plan)
    return Verdict(TooManyRejectsError.code if unusable else 0, unusable, counts)


def require_good(verdict: Verdict) -> None:
    """Raises the error of a verdict that does not let the parts become a dataset.

    Raises:
        IncompleteError: images were lost or doubled.
        TooManyRejectsError: too many rejects, or none left of a class or split.
    """
    if verdict.code:
        raise (TooManyRejectsError if verdict.code == TooManyRejectsError.code else IncompleteError)(verdict.message)


def _lost(counts: Counts, totals: Totals) -> str:
    for name, split in totals.splits.items():
        images, key_sum = counts.images.get(name, 0), counts.key_sums.get(name, 0)
        if (images, key_sum) != (split.images, split.key_sum):
            return (
                f"{name}: {split.images:,} images were listed, but {images:,} came out of the parts (key sums "
                f"{split.key_sum:032x} and {key_sum:032x}). {ENGINE_FAULT}"
            )
    return ""


def _too_many(counts: Counts, plan: Plan, limit: Limit) -> str:
    rejected, allowed = sum(counts.rejected.values()), limit.images(plan.candidates)
    if rejected <= allowed:
        return ""
    remedy = (
        f"Look at the rejects. Rerun with --max_rejected {rejected} to go on without them: the finished work is kept and is not "
        "done again. Or repair or remove those images, then rerun with --discard_incomplete."
    )
    if _emptied(counts, plan):
        remedy = (
            "Look at the rejects. A higher limit would not help: a class or split would be left without an image. Repair those "
            "images, then rerun with --discard_incomplete."
        )
    if counts.rejected.get("CHANGED"):  # a rerun would list another input, which this claim is not for
        remedy = (
            "The input was changed while it was read: rerun with --discard_incomplete, to begin with what is there now."
        )
    return (
        f"{rejected:,} of {plan.candidates:,} images cannot be used ({by_count(counts.rejected)}); --max_rejected allows "
        f"{allowed:,}. Nothing was published. {remedy}"
    )


def _emptied(counts: Counts, plan: Plan) -> str:
    by_class = add_counts(*counts.class_counts.values())
    if lost := [name for name in plan.classes if not by_class.get(name)]:
        shown = some_of([clip(name, 60) for name in lost], 10)
        return (
            f"no image of {plural(len(lost), 'class', 'es')} can be used: {shown}. Rejected: {by_count(counts.rejected)}. "
            "Nothing was published. Repair those images, or take their folders out of --input, then rerun with "
            "--discard_incomplete."
        )
    rejected: dict[str, int] = {}
    for name, _, rejects in counts.rejects_by_part:
        rejected[name] = rejected.get(name, 0) + rejects
    for split in plan.splits:
        if counts.images.get(split, 0) == rejected.get(split, 0):
            return (
                f"no image of split {split} can be used ({by_count(counts.rejected)}). Nothing was published. Repair them, then "
                "rerun with --discard_incomplete."
            )
    return ""
