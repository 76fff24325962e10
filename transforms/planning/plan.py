"""From totals to a plan: checks of the whole listing, the number of parts, and the fingerprint.

P, a split's number of parts, is an exact integer function of listing totals, options and
constants: about 6 MB of encoded bytes per part, at most 1 GB of decoding work per part, at least
16 parts per shard. Which images make a part follows from P, so nothing of the machine may enter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from hashlib import blake2b
from itertools import pairwise

from shardfeed.errors import UsageError, clip
from shardfeed.format.manifest import canonical_json
from shardfeed.transforms.elements import PartResult, Plan, SplitPlan, SplitTotals, Totals
from shardfeed.transforms.inputs.classes import choose_classes
from shardfeed.transforms.inputs.labels import DROPPED, FAULTS, FOLDER_FAULTS, labeller
from shardfeed.transforms.inputs.splits import parse_splits
from shardfeed.transforms.metadata.join import NO_ROW, UNMATCHED_KINDS
from shardfeed.transforms.options import ENCODER_REVISION, MIN_SHARDS, MIN_SHARDS_IMAGES, BuildOptions
from shardfeed.transforms.output.part_files import Sidecar
from shardfeed.transforms.output.part_rows import LAYOUT
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.planning.totals import MOST_GROUPS
from shardfeed.words import plural

PART_BYTES = 6_000_000  # encoded bytes per part: small enough to lose, large enough to write
PART_WORK = 1_000_000_000  # at most, as ``estimate_work``: 15 to 50 s of a core
MOST_SPLITS = 100
PARTS_A_SHARD = 16  # at least; packing 16 parts leaves max/mean of the shards within 1-2 %
# Words of the messages of faults, for one image or folder.
_NOUNS = {"files": "file", "folders": "folder", "images": "image", "links": "symbolic link"}
_VERBS = {"are": "is", "have": "has", "hold": "holds", "lie": "lies", "stand": "stands"}


def make_plan(totals: Totals, options: BuildOptions, versions: Mapping[str, str], unmatched: Limit) -> Plan:
    """The plan of a listing. ``unmatched``: the limit on images without a row, and the other way.

    Raises:
        UsageError: no images; images without a label; folders without images; a split without
            images; classes that cannot be; more shards than images.
    """
    _refuse_faults(totals, FAULTS, options)
    _refuse_unmatched(totals, unmatched)
    if not totals.candidates and totals.skipped.get(DROPPED):
        raise UsageError(
            f"--class_map drops the class of every image ({totals.skipped[DROPPED]:,}). Take the classes to keep out of the "
            "map, or give them a name behind the comma."
        )
    if not totals.candidates:
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(totals.skipped.items()))
        names = ", ".join(clip(key, 100) for _, key, *_ in totals.skipped_sample[:3])
        skipped += f", such as {names}" * bool(names)
        raise UsageError(
            f"no images found in the input{f' (skipped: {skipped})' * bool(skipped)}. Expected ROOT/class/image.jpg with "
            "suffixes such as .jpg, .png, .webp, .gif, .bmp. Check --input."
            + " Links out of the input are not followed: copy the files, or list them (--input @list.txt)."
            * ("symlink" in totals.skipped)
        )
    _refuse_faults(totals, FOLDER_FAULTS, options)
    _refuse_divided_groups(totals, options)
    _refuse_empty_splits(totals, options)
    if len(totals.splits) > MOST_SPLITS:
        raise UsageError(
            f"--splits {clip(options.splits)} makes {len(totals.splits):,} splits, such as {clip(min(totals.splits))}; at most "
            f"{MOST_SPLITS} are possible. Name a column with few values."
        )
    alike = sorted(totals.splits, key=str.lower)
    for one, other in pairwise(alike):
        if one.lower() == other.lower():
            raise UsageError(
                f"--splits {clip(options.splits)} makes the splits {one} and {other}, which differ only in case. "
                "Correct the table."
            )
    found = {name for split in totals.splits.values() for name in split.by_class}
    classes = choose_classes(found, totals.names, options)
    if not classes and options.label_kind != "none":
        raise UsageError(
            f"not one of {totals.candidates:,} images has a label. Check the labels, or give --label_from none."
        )
    fixed = _fixed_shards(totals, options)
    splits = {name: _split_plan(split, fixed.get(name), options) for name, split in sorted(totals.splits.items())}
    parts = {name: split.parts for name, split in splits.items()}
    return Plan(
        fingerprint=fingerprint(totals.digest, options, versions, parts),
        classes=classes,
        versions=dict(versions),
        candidates=totals.candidates,
        splits=splits,
        label_kind=options.label_kind,
    )


def fingerprint(digest: int, options: BuildOptions, versions: Mapping[str, str], parts: Mapping[str, int]) -> str:
    """32 hex digits over everything that decides a byte of the dataset.

    ``parts``: number by split. A release that estimates otherwise must not carry on a build whose
    parts hold other images. The same holds for one whose sidecars have other fields or rows.
    """
    what = {
        "config": options.config(),
        "encoder_revision": ENCODER_REVISION,
        "listing": f"{digest:032x}",
        "parts": dict(parts),
        "rows": LAYOUT,
        "sidecar": sorted(field.name for field in (*fields(Sidecar), *fields(PartResult))),
        "versions": dict(versions),
    }
    return blake2b(canonical_json(what), digest_size=16, person=b"fingerprint").hexdigest()


def shards_for_bytes(total_bytes: int, images: int, shard_bytes: int) -> int:
    """Number of shards, as near ``shard_bytes`` each as possible; 1 to ``images``.

    From 1,600 images on it is at least 16.
    """
    count = max(1, total_bytes // shard_bytes)
    # |total/N - target| without division: count is at or above the target, count + 1 below it.
    if (total_bytes - shard_bytes * count) * (count + 1) > (shard_bytes * (count + 1) - total_bytes) * count:
        count += 1
    return min(max(count, MIN_SHARDS if images >= MIN_SHARDS_IMAGES else 1), images)


def _refuse_faults(totals: Totals, messages: Mapping[str, str], options: BuildOptions) -> None:
    for what, (count, keys) in sorted(totals.faults.items()):
        if what in messages:
            found = {noun: plural(count, one) for noun, one in _NOUNS.items()}
            found |= {verb: one if count == 1 else verb for verb, one in _VERBS.items()}
            message = messages[what].format(
                count=f"{count:,}",
                examples=", ".join(keys),
                depth=labeller(options).class_depth,
                label_depth=options.label_depth,
                label_regex=clip(options.label_regex or ""),
                **found,
            )
            raise UsageError(message)


def _refuse_unmatched(totals: Totals, limit: Limit) -> None:
    """Names both sides if both are there: one then sees how paths of rows and images differ."""
    most = limit.images(totals.candidates + totals.skipped.get(NO_ROW, 0))
    found = {what: totals.faults[what] for what in UNMATCHED_KINDS if what in totals.faults}
    if too_many := [what for what, (count, _) in found.items() if count > most]:
        said = "; ".join(
            UNMATCHED_KINDS[what][0].format(count=f"{count:,}", examples=", ".join(keys))
            for what, (count, keys) in found.items()
        )
        largest = max(count for count, _ in found.values())
        raise UsageError(
            f"{said}. {UNMATCHED_KINDS[too_many[0]][1]} or go on without them: --max_unmatched {largest} lists them in "
            "unmatched.jsonl."
        )


def _refuse_divided_groups(totals: Totals, options: BuildOptions) -> None:
    if divided := sorted(group for group, splits in totals.group_splits.items() if len(splits) > 1):
        lie = "group of --group_by lies" if len(divided) == 1 else "groups of --group_by lie"
        raise UsageError(
            f"{len(divided):,} {lie} in several splits of --splits {clip(options.splits)}, such as {clip(divided[0])} in "
            f"{' and '.join(totals.group_splits[divided[0]])}: a model would be tested on what it has learnt. Put each group "
            "into one split, or let shares decide (--splits train=0.9,test=0.1), or leave --group_by out."
        )
    if len(totals.group_splits) > MOST_GROUPS:
        raise UsageError(
            f"--group_by {clip(options.group_by)} finds more than {MOST_GROUPS:,} groups; whether each lies in one split of "
            f"--splits {clip(options.splits)} can be said of so many only. Leave --group_by out."
        )


def _refuse_empty_splits(totals: Totals, options: BuildOptions) -> None:
    if empty := [name for name, _ in parse_splits(options.splits).bounds if name not in totals.splits]:
        units = "images"
        why = "The split follows from a hash of the key"
        if options.group_by:
            units, why = "groups", "The split follows from a hash of the name that --group_by gives an image"
        if options.stratify:
            why = f"With --stratify each class is divided by itself, to the nearest {units.removesuffix('s')}"
        raise UsageError(
            f"--splits {options.splits}: none of {totals.candidates:,} images falls into {', '.join(empty)}. {why}, so small "
            f"shares of few {units} can be empty. Give larger shares or more {units}, or choose by hand with --splits folders."
        )


def _split_plan(split: SplitTotals, shards: int | None, options: BuildOptions) -> SplitPlan:
    count = shards or shards_for_bytes(split.estimate, split.images, options.shard_bytes)
    parts = max(PARTS_A_SHARD * count, -(-split.estimate // PART_BYTES), -(-split.work // PART_WORK))
    return SplitPlan(parts, shards, split.images)


def _fixed_shards(totals: Totals, options: BuildOptions) -> dict[str, int]:
    """Shards by split, if ``--num_shards`` fixes them: N for the largest, others in proportion."""
    wanted = options.num_shards
    if wanted is None:
        return {}
    images = {name: split.images for name, split in totals.splits.items()}
    if isinstance(wanted, tuple):
        counts = dict(wanted)
        for name in sorted(counts.keys() ^ images.keys()):
            raise UsageError(
                f"--num_shards names {', '.join(sorted(counts))}, but the dataset has the splits {', '.join(sorted(images))}: "
                f"{name!r} is only on one side. Name each split once, or give one number."
            )
    else:
        largest = max(images.values())
        counts = {name: max(1, (2 * wanted * count + largest) // (2 * largest)) for name, count in images.items()}
    for name, count in sorted(counts.items()):
        if count > images[name]:
            raise UsageError(
                f"--num_shards {count} for {name}, which has {images[name]} images: a shard is never empty. "
                f"Give at most {images[name]}."
            )
    return counts
