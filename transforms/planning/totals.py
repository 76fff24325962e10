"""What a listing adds up to: counts, key sums and a digest that do not depend on order, batches or workers.

Sums mod 2**128 of 128-bit hashes: a lost, doubled or changed key changes the sum (xor would cancel doubles).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from shardfeed.errors import clip
from shardfeed.format.hashing import MASK128, hash128, key_hash
from shardfeed.transforms.elements import ImageRef, RefBatch, SplitTotals, Totals, add_into, unpack_keys, unpack_refs
from shardfeed.transforms.inputs.labels import Faulty, UnlabelledError, label_key, parse_splits
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.estimate import estimate_record_bytes, estimate_work

_EXAMPLES = 5  # keys shown of each fault
_VERSION = struct.Struct("<Qq")


def label_batch(batch: RefBatch, options: BuildOptions) -> list[RefBatch]:
    """The batch cut by split; one of faulty folders as it is."""
    if batch.split.startswith(Faulty.PREFIX):
        return [batch]
    rule = parse_splits(options.splits)
    pieces: dict[str, list[bytes]] = {}
    for key, packed in unpack_keys(batch.refs):
        try:
            split, _ = label_key(key, rule)
        except UnlabelledError as error:
            split = Faulty.split(error.what)
        pieces.setdefault(split, []).append(packed)
    labelled = [RefBatch(split, b"".join(refs)) for split, refs in sorted(pieces.items())]
    return [*labelled, RefBatch("", b"", batch.skipped)]


def count_batch(batch: RefBatch, options: BuildOptions) -> Totals:
    """Totals of one labelled batch."""
    if batch.split.startswith(Faulty.PREFIX):
        keys = [clip(ref.key, 100) for ref in unpack_refs(batch.refs)]
        return Totals(skipped=batch.skipped, faults={batch.split[1:]: (len(keys), tuple(sorted(keys)[:_EXAMPLES]))})
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
        digest += _listing_hash(ref)
        cell = by_class.setdefault(rule.class_of(ref.key), [0, 0])
        cell[0] += 1
        cell[1] += ref.stat.size
    cells = {name: (n, b) for name, (n, b) in by_class.items()}
    split = SplitTotals(images, size, estimate, keys_sum & MASK128, cells, work)
    return Totals({batch.split: split}, digest & MASK128, batch.skipped)


def _listing_hash(ref: ImageRef) -> int:
    return hash128("list", 0, _VERSION.pack(ref.stat.size, ref.stat.version) + ref.key)


def add_totals(many: Iterable[Totals]) -> Totals:
    """Sum of totals, in any order."""
    splits: dict[str, _SplitSum] = {}
    digest = 0
    skipped: dict[str, int] = {}
    faults: dict[str, tuple[int, tuple[str, ...]]] = {}
    for totals in many:
        digest = (digest + totals.digest) & MASK128
        add_into(skipped, totals.skipped)
        for name, split in totals.splits.items():
            splits.setdefault(name, _SplitSum()).add(split)
        for what, (count, keys) in totals.faults.items():
            before, shown = faults.get(what, (0, ()))
            faults[what] = (before + count, tuple(sorted({*shown, *keys})[:_EXAMPLES]))
    return Totals({name: split.totals() for name, split in splits.items()}, digest, skipped, faults)


class _SplitSum:
    """A split's totals in the making: to add takes as long as what is added, however many classes there are by then."""

    def __init__(self) -> None:
        self._images = self._bytes = self._estimate = self._key_sum = self._work = 0
        self._by_class: dict[str, tuple[int, int]] = {}

    def add(self, split: SplitTotals) -> None:
        self._images += split.images
        self._bytes += split.bytes
        self._estimate += split.estimate
        self._key_sum = (self._key_sum + split.key_sum) & MASK128
        self._work += split.work
        for name, (images, size) in split.by_class.items():
            before = self._by_class.get(name, (0, 0))
            self._by_class[name] = (before[0] + images, before[1] + size)

    def totals(self) -> SplitTotals:
        return SplitTotals(self._images, self._bytes, self._estimate, self._key_sum, self._by_class, self._work)


def listing_of(totals: Totals) -> dict[str, Any]:
    """The manifest's ``listing``: digest, and (images, bytes) by class and by split and class."""
    by_class: dict[str, list[int]] = {}
    for split in totals.splits.values():
        for name, (images, size) in split.by_class.items():
            cell = by_class.setdefault(name, [0, 0])
            cell[0] += images
            cell[1] += size
    by_split = {
        name: {label: list(cell) for label, cell in split.by_class.items()} for name, split in totals.splits.items()
    }
    return {"digest": f"{totals.digest:032x}", "by_class": by_class, "by_split": by_split}
