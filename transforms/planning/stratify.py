"""The bounds of ``--stratify``: where each class is cut, so that its shares are exact to one image.

A class of n images, in the order of their hashes, is cut behind the first round(n * share) of them.
The bound follows from the hash of the image there. It is found without a list of the images: each
pass counts the hashes between a lower and an upper limit in 1,024 steps and goes on in one of them,
until few enough are left to be collected. Two passes are enough for a million images of a class,
three for a billion.

Hashes have 128 bits, so no two images share one. With ``--group_by`` it is the group's name that is
hashed, and all images of a group share its hash. A group counts for one class, the first of its
images' classes in byte order. It is never divided: where a share ends in it, the class is cut at
its nearer end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from shardfeed.errors import UsageError, clip
from shardfeed.format.hashing import hash128
from shardfeed.transforms.elements import Element, RefBatch, add_into, unpack_keys
from shardfeed.transforms.inputs.key_regex import add_found
from shardfeed.transforms.inputs.labels import labeller
from shardfeed.transforms.inputs.splits import group_of_row, split_rule, stratum
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.totals import MOST_GROUPS, label_batch

PASSES = 4  # enough for 10**12 images of one class
_BITS = 128
_STEP_BITS = 10
_LAST_BITS = _BITS - PASSES * _STEP_BITS  # hashes that agree in all bits above these are one group's
_FEW = 1 << _STEP_BITS  # hashes that are collected, not counted

Bound = tuple[int, int, int, int]
"""Where a bound is: behind ``share`` / 2**64 of the ``images`` whose hashes begin at ``low`` and go on
for 2**``bits``. As (low, bits, share, images); found if ``bits`` is 0."""


@dataclass(frozen=True)
class ClassSizes(Element):
    """Number of images by class, or, with ``--group_by``, (class, images) by group."""

    images: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cuts(Element):
    """The known bounds of each class; with ``--group_by`` the ``classes`` of groups."""

    places: Mapping[str, tuple[Bound, ...]] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """Whether no further pass is needed."""
        return not any(bits for places in self.places.values() for _, bits, _, _ in places)

    @cached_property
    def bounds(self) -> dict[str, tuple[int, ...]]:
        """Upper bounds of the splits' hashes by class, or by group; the last split has none."""
        found = {name: (*(low for low, _, _, _ in places), 1 << _BITS) for name, places in self.places.items()}
        return {group: found[name] for group, name in self.classes.items()} if self.classes else found


@dataclass(frozen=True)
class Tally(Element):
    """What one pass has seen of each bound, by class and number of the bound.

    ``hashes``: the hashes themselves, where few are left. ``steps``: else (step, images) pairs.
    """

    hashes: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    steps: Mapping[str, tuple[tuple[tuple[int, int], ...], ...]] = field(default_factory=dict)


def class_sizes(batch: RefBatch, options: BuildOptions) -> ClassSizes:
    """Images by class in a batch that is not labelled yet; images without a label do not count."""
    if not split_rule(options).grouped:
        return ClassSizes(dict(Counter(name for name, _ in _units(batch, options))))
    return add_sizes(ClassSizes(groups={unit.decode(): (name, 1)}) for name, unit in _units(batch, options))


def add_sizes(many: Iterable[ClassSizes]) -> ClassSizes:
    """Sum of sizes, in any order."""
    total: dict[str, int] = {}
    groups: dict[str, tuple[str, int]] = {}
    for sizes in many:
        add_into(total, sizes.images)
        for group, (name, count) in sizes.groups.items():
            before, images = groups.get(group, (name, 0))
            if images or len(groups) <= MOST_GROUPS:  # one above it: there are more
                groups[group] = stratum(tuple(filter(None, (before, name)))), images + count
    return ClassSizes(total, groups)


def first_cuts(sizes: ClassSizes, options: BuildOptions) -> Cuts:
    """The bounds' shares; nothing is known of their hashes yet.

    Raises:
        UsageError: there are more than ``MOST_GROUPS`` groups.
    """
    if len(sizes.groups) > MOST_GROUPS:
        raise UsageError(
            f"--group_by {clip(options.group_by)} finds more than {MOST_GROUPS:,} groups, and --stratify must hold the class of "
            "each. Leave --stratify out: shares of so many groups are nearly exact without it."
        )
    images = dict(sizes.images)
    for name, count in sizes.groups.values():
        images[name] = images.get(name, 0) + count
    shares = [bound for _, bound in split_rule(options).bounds[:-1]]
    places = {name: tuple((0, _BITS, count * share, count) for share in shares) for name, count in images.items()}
    return Cuts(places, {group: name for group, (name, _) in sizes.groups.items()})


def tally(batch: RefBatch, options: BuildOptions, cuts: Cuts) -> Tally:
    """What a batch adds to a pass."""
    hashes: dict[str, list[list[int]]] = {}
    steps: dict[str, list[dict[int, int]]] = {}
    for own, unit in () if cuts.found else _units(batch, options):
        name, spot = cuts.classes[unit.decode()] if cuts.classes else own, hash128("split", 0, unit)
        for number, (low, bits, _, images) in enumerate(cuts.places[name]):
            if not bits or not 0 <= spot - low < 1 << bits:
                continue
            if images <= _FEW:
                hashes.setdefault(name, [[] for _ in cuts.places[name]])[number].append(spot)
            else:
                seen = steps.setdefault(name, [{} for _ in cuts.places[name]])[number]
                step = (spot - low) >> (bits - _STEP_BITS)
                seen[step] = seen.get(step, 0) + 1
    return Tally(
        {name: tuple(map(tuple, many)) for name, many in hashes.items()},
        {name: tuple(tuple(seen.items()) for seen in many) for name, many in steps.items()},
    )


def add_tallies(many: Iterable[Tally]) -> Tally:
    """Sum of tallies, in any order."""
    hashes: dict[str, list[list[int]]] = {}
    steps: dict[str, list[dict[int, int]]] = {}
    for one in many:
        for name, found in one.hashes.items():
            for kept, new in zip(hashes.setdefault(name, [[] for _ in found]), found, strict=True):
                kept += new
        for name, counted in one.steps.items():
            for seen, pairs in zip(steps.setdefault(name, [{} for _ in counted]), counted, strict=True):
                for step, count in pairs:
                    seen[step] = seen.get(step, 0) + count
    return Tally(
        {name: tuple(map(tuple, many)) for name, many in hashes.items()},
        {name: tuple(tuple(seen.items()) for seen in many) for name, many in steps.items()},
    )


def narrow(cuts: Cuts, seen: Tally) -> Cuts:
    """The bounds after a pass."""
    places = {}
    for name, old in cuts.places.items():
        empty: tuple[tuple[()], ...] = ((),) * len(old)
        hashes, steps = seen.hashes.get(name, empty), seen.steps.get(name, empty)
        places[name] = tuple(map(_narrower, old, hashes, steps))
    return replace(cuts, places=places)


def _narrower(place: Bound, hashes: Iterable[int], steps: Iterable[tuple[int, int]]) -> Bound:
    low, bits, share, images = place
    if not bits:
        return place
    if images <= _FEW:
        ordered = sorted(hashes)
        spot = ordered[share >> 64]
        inside = share - (ordered.index(spot) << 64)
        return spot + _lies_before(inside, ordered.count(spot)), 0, 0, 1
    bits -= _STEP_BITS
    for step, count in sorted(steps):
        if share < count << 64:
            low += step << bits
            if bits > _LAST_BITS:
                return low, bits, share, count
            return low + (_lies_before(share, count) << bits), 0, 0, 1
        share -= count << 64
    raise AssertionError("a pass saw fewer images than the pass before")


def _lies_before(share: int, images: int) -> bool:
    """Whether an image, or a group of ``images``, in which the share ends lies before the cut."""
    return 2 * share >= images << 64


def find_cuts(batches: Sequence[RefBatch], options: BuildOptions) -> Cuts:
    """The bounds of a listing that is held; ``batches`` is walked once per pass."""
    cuts = first_cuts(add_sizes(class_sizes(batch, options) for batch in batches), options)
    while not cuts.found:
        cuts = narrow(cuts, add_tallies(tally(batch, options, cuts) for batch in batches))
    return cuts


def label_all(batches: Iterable[RefBatch], options: BuildOptions) -> Iterator[RefBatch]:
    """The labelled batches of a whole listing, in any order.

    With ``--stratify`` all of ``batches`` are held until the bounds are found.
    """
    if not options.stratify:
        for batch in batches:
            yield from label_batch(batch, options)
        return
    held = list(batches)
    bounds = find_cuts(held, options).bounds
    while held:
        yield from label_batch(held.pop(), options, bounds)


def _units(batch: RefBatch, options: BuildOptions) -> Iterator[tuple[str, bytes]]:
    """(class, key or group) of images whose label is known; those without one are a class, too."""
    if batch.fault:
        return
    label, grouped = labeller(options).labels_or_fault, split_rule(options).grouped
    for key, row, _ in unpack_keys(add_found(batch.refs, options)):
        labels, fault = label(key, row)
        unit = group_of_row(row).encode() if grouped else key
        if unit and not fault:
            yield stratum(labels), unit
