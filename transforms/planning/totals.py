"""What a listing adds up to: counts, key sums and a digest.

They do not depend on order, batches or workers. Sums are mod 2**128 of 128-bit hashes: a lost,
doubled or changed key changes the sum. (Xor would cancel doubles.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from shardfeed.errors import clip
from shardfeed.format.hashing import MASK128, hash128, key_hash
from shardfeed.transforms.elements import RefBatch, SplitTotals, Totals, add_into, unpack_keys, unpack_refs
from shardfeed.transforms.inputs.labels import parse_splits, split_or_fault
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.estimate import estimate_record_bytes, estimate_work

_EXAMPLES = 5  # keys shown per fault
_VERSION = struct.Struct("<Qq")


def label_batch(batch: RefBatch, options: BuildOptions) -> list[RefBatch]:
    """Cuts a batch by split; references without a label become batches with a fault.

    A batch of faulty folders stays as it is.
    """
    if batch.fault:
        return [batch]
    rule = parse_splits(options.splits)
    pieces: dict[tuple[str, str], list[bytes]] = {}
    for key, packed in unpack_keys(batch.refs):
        pieces.setdefault(split_or_fault(key, rule), []).append(packed)
    labelled = [RefBatch(split, b"".join(refs), fault=fault) for (split, fault), refs in sorted(pieces.items())]
    return [*labelled, RefBatch("", b"", batch.skipped)]


def count_batch(batch: RefBatch, options: BuildOptions) -> Totals:
    """Totals of one labelled batch."""
    if batch.fault:
        keys = sorted(clip(key, 100) for key, _ in unpack_keys(batch.refs))
        return Totals(skipped=batch.skipped, faults={batch.fault: (len(keys), tuple(keys[:_EXAMPLES]))})
    if not batch.refs:
        return Totals(skipped=batch.skipped)
    rule = parse_splits(options.splits)
    images = size = estimate = work = keys_sum = digest = 0
    by_class: dict[str, list[int]] = {}
    for ref in unpack_refs(batch.refs):
        images += 1
        size += ref.stat.size
        estimate += estimate_record_bytes(ref.stat.size, options.image)
        work += estimate_work(ref.key, ref.stat.size)
        keys_sum += key_hash(ref.key)
        digest += hash128("list", 0, _VERSION.pack(ref.stat.size, ref.stat.version) + ref.key)
        cell = by_class.setdefault(rule.class_of(ref.key), [0, 0])
        cell[0] += 1
        cell[1] += ref.stat.size
    cells = {name: (n, b) for name, (n, b) in by_class.items()}
    split = SplitTotals(images, size, estimate, keys_sum & MASK128, cells, work)
    return Totals({batch.split: split}, digest & MASK128, batch.skipped)


def add_totals(many: Iterable[Totals]) -> Totals:
    """Sum of totals, in any order.

    The time follows from what is added, not from the number of classes that are there by then.
    """
    sums: dict[str, tuple[int, ...]] = {}
    cells: dict[str, dict[str, tuple[int, int]]] = {}
    digest = 0
    skipped: dict[str, int] = {}
    faults: dict[str, tuple[int, tuple[str, ...]]] = {}
    for totals in many:
        digest += totals.digest
        add_into(skipped, totals.skipped)
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
    return Totals(splits, digest & MASK128, skipped, faults)


def _add_cells(total: dict[str, tuple[int, int]], cells: Mapping[str, tuple[int, int]]) -> None:
    """Adds (images, bytes) by class to ``total``."""
    for name, (images, size) in cells.items():
        before = total.get(name, (0, 0))
        total[name] = before[0] + images, before[1] + size


def listing_of(totals: Totals) -> dict[str, Any]:
    """The manifest's ``listing``: digest, and (images, bytes) by class and by split and class."""
    by_class: dict[str, tuple[int, int]] = {}
    for split in totals.splits.values():
        _add_cells(by_class, split.by_class)
    by_split = {name: _as_lists(split.by_class) for name, split in totals.splits.items()}
    return {"digest": f"{totals.digest:032x}", "by_class": _as_lists(by_class), "by_split": by_split}


def _as_lists(cells: Mapping[str, tuple[int, int]]) -> dict[str, list[int]]:
    return {name: list(cell) for name, cell in cells.items()}
