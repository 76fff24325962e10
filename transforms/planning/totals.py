"""What a listing adds up to: counts, key sums and a digest.

They do not depend on order, batches or workers. Sums are mod 2**128 of 128-bit hashes: a lost,
doubled or changed key changes the sum. (Xor would cancel doubles.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shardfeed.errors import clip
from shardfeed.format.hashing import MASK128, hash128, key_hash
from shardfeed.transforms.elements import RefBatch, SplitTotals, Totals, add_into, unpack_keys, unpack_refs
from shardfeed.transforms.inputs.key_regex import add_found
from shardfeed.transforms.inputs.labels import DROPPED, labeller
from shardfeed.transforms.inputs.skipped import SKIPPED, SkippedSample
from shardfeed.transforms.inputs.splits import group_of_row
from shardfeed.transforms.metadata.join import NO_IMAGE
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.estimate import estimate_work, record_estimate

MOST_GROUPS = 1_000_000  # whose splits are compared: some 100 MB
_EXAMPLES = 5  # keys shown per fault
_VERSION = struct.Struct("<Qq")
_KEY_BYTES = struct.Struct("<I")


def label_batch(
    batch: RefBatch, options: BuildOptions, cuts: Mapping[str, tuple[int, ...]] | None = None
) -> list[RefBatch]:
    """Cuts a batch by split; references without a label become batches with a fault.

    A batch of faulty folders stays as it is. What ``--label_regex`` finds is put into the row.
    ``cuts``: with ``--stratify``, the bounds by class.
    """
    if batch.fault:
        return [batch]
    rule = labeller(options)
    label = (rule if cuts is None else replace(rule, splits=replace(rule.splits, cuts=cuts))).label
    pieces: dict[tuple[str, str], list[bytes]] = {}
    for key, row, packed in unpack_keys(add_found(batch.refs, options)):
        split, _, fault = label(key, row)
        pieces.setdefault((split, fault), []).append(packed)
    labelled = [RefBatch(split, b"".join(refs), fault=fault) for (split, fault), refs in sorted(pieces.items())]
    return [*labelled, RefBatch("", b"", batch.skipped)]


def count_batch(batch: RefBatch, options: BuildOptions) -> Totals:
    """Totals of one labelled batch."""
    own, names = labeller(options), dict[str, int]()
    if batch.fault == DROPPED:
        images = 0
        for key, row, _ in unpack_keys(batch.refs):
            images += 1
            add_into(names, dict.fromkeys(own.names_of(key, row), 1))
        return Totals(skipped={DROPPED: images}, names=names)
    if batch.fault == SKIPPED:
        sample = ((ref.root, ref.key.decode(), ref.stat.size, ref.stat.version) for ref in unpack_refs(batch.refs))
        return Totals(skipped_sample=tuple(sample))
    if batch.fault:
        keys = sorted(clip(key, 100) for key, _, _ in unpack_keys(batch.refs))
        return Totals(skipped=batch.skipped, faults={batch.fault: (len(keys), tuple(keys[:_EXAMPLES]))})
    if not batch.refs:
        return Totals(skipped=batch.skipped)
    labels_of, estimate_of = own.labels_of, record_estimate(options.image)
    images = size = estimate = work = keys_sum = digest = 0
    by_class: dict[str, list[int]] = {}
    groups = set[str]()
    for ref in unpack_refs(batch.refs):
        images += 1
        size += ref.stat.size
        estimate += estimate_of(ref.stat.size)
        work += estimate_work(ref.key, ref.stat.size, options.image.limits)
        keys_sum += key_hash(ref.key)
        digest += hash128("list", 0, _VERSION.pack(ref.stat.size, ref.stat.version) + ref.key)
        if ref.row:
            digest += hash128("table", 0, _KEY_BYTES.pack(len(ref.key)) + ref.key + ref.row)
        if options.class_map is not None:
            add_into(names, dict.fromkeys(own.names_of(ref.key, ref.row), 1))
        if own.splits.checks_groups:
            groups.add(group_of_row(ref.row))
        for label in labels_of(ref.key, ref.row):
            cell = by_class.setdefault(label, [0, 0])
            cell[0] += 1
            cell[1] += ref.stat.size
    cells = {name: (n, b) for name, (n, b) in by_class.items()}
    split = SplitTotals(images, size, estimate, keys_sum & MASK128, cells, work)
    where = dict.fromkeys(groups, (batch.split,))
    return Totals({batch.split: split}, digest & MASK128, batch.skipped, names=names, group_splits=where)


def add_totals(many: Iterable[Totals]) -> Totals:
    """Sum of totals, in any order.

    The time follows from what is added, not from the number of classes that are there by then.
    """
    sums: dict[str, tuple[int, ...]] = {}
    cells: dict[str, dict[str, tuple[int, int]]] = {}
    digest = 0
    skipped: dict[str, int] = {}
    names: dict[str, int] = {}
    faults: dict[str, tuple[int, tuple[str, ...]]] = {}
    sample = SkippedSample()
    groups: dict[str, tuple[str, ...]] = {}
    for totals in many:
        digest += totals.digest
        add_into(skipped, totals.skipped)
        add_into(names, totals.names)
        for file in totals.skipped_sample:
            sample.add(file)
        _add_groups(groups, totals.group_splits)
        for name, split in totals.splits.items():
            numbers = (split.images, split.bytes, split.estimate, split.work, split.key_sum)
            sums[name] = tuple(map(sum, zip(sums.get(name, (0,) * 5), numbers, strict=True)))
            _add_cells(cells.setdefault(name, {}), split.by_class)
        for what, (count, keys) in totals.faults.items():
            before, shown = faults.get(what, (0, ()))
            faults[what] = (before + count, tuple(sorted({*shown, *keys})[:_EXAMPLES]))
    splits = {
        name: SplitTotals(images, size, estimate, key_sum & MASK128, cells[name], work)
        for name, (images, size, estimate, work, key_sum) in sums.items()
    }
    return Totals(splits, digest & MASK128, skipped, faults, names, sample.files(), groups)


def _add_groups(total: dict[str, tuple[str, ...]], groups: Mapping[str, tuple[str, ...]]) -> None:
    """Adds the splits of groups to ``total``. One above ``MOST_GROUPS``: there are more."""
    for group, splits in groups.items():
        before = total.get(group, ())
        if before or len(total) <= MOST_GROUPS:
            total[group] = splits if splits == before else tuple(sorted({*before, *splits}))


def _add_cells(total: dict[str, tuple[int, int]], cells: Mapping[str, tuple[int, int]]) -> None:
    """Adds (images, bytes) by class to ``total``."""
    for name, (images, size) in cells.items():
        before = total.get(name, (0, 0))
        total[name] = before[0] + images, before[1] + size


def listing_of(totals: Totals) -> dict[str, Any]:
    """The manifest's ``listing``: digest, and (images, bytes) by class and by split and class.

    The digest covers the row of each image too; ``rows_without_image`` is in none.
    """
    by_class: dict[str, tuple[int, int]] = {}
    for split in totals.splits.values():
        _add_cells(by_class, split.by_class)
    by_split = {name: _as_lists(split.by_class) for name, split in totals.splits.items()}
    rows = {"rows_without_image": totals.faults[NO_IMAGE][0]} if NO_IMAGE in totals.faults else {}
    return {"digest": f"{totals.digest:032x}", "by_class": _as_lists(by_class), "by_split": by_split, **rows}


def _as_lists(cells: Mapping[str, tuple[int, int]]) -> dict[str, list[int]]:
    return {name: list(cell) for name, cell in cells.items()}
