"""A few hundred of the listed images, chosen by hash and encoded for real: what a forecast is calibrated on.

The one decision: sizes and seconds are measured on the input itself. A table of bytes a pixel is right for photos and wrong for
scans and drawings, and no table knows this machine.

The sample is stratified by what the listing says of a file, its suffix and its size: of logos with a few photos among them, a
plain sample would be right about either, and wrong about how many there are. Within a stratum the images with the smallest
hashes are read, so the sample is random in content, and the same for every listing order.
"""

from __future__ import annotations

import heapq
import math
import os.path
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import fmean, variance

from shardfeed.format.hashing import hash64
from shardfeed.transforms.elements import ImageRef, RefBatch, unpack_refs
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.images.rejects import Reason
from shardfeed.transforms.inputs.labels import Faulty

SAMPLE_IMAGES = 400  # of all splits; photos' encoded sizes vary by 40 %, which leaves 2 % of error
LEAST_IMAGES = 100  # of each split, however many splits there are; and in all, however long they take
SAMPLE_SECONDS = 20.0  # after which no more than LEAST_IMAGES are read, or one of each stratum

_SURE = 4  # standard errors: 1 of 30,000 estimates is farther off

_Kind = tuple[str, bytes, int]  # split, suffix, bits of the size


@dataclass(eq=False, slots=True)
class Stratum:
    """Images of a split with the same suffix and, to a factor of two, size.

    ``images``, ``size``: number and bytes of them all; ``kept``: those with the smallest hashes, a heap of (minus the hash, key,
    root, reference).
    """

    images: int = 0
    size: int = 0
    kept: list[tuple[int, bytes, int, ImageRef]] = field(default_factory=list)

    def add(self, ref: ImageRef, most: int) -> None:
        """Counts an image, and keeps it if it is among the first ``most``."""
        self.images += 1
        self.size += ref.stat.size
        place = -hash64("plan", 0, ref.key)
        if len(self.kept) < most:
            heapq.heappush(self.kept, (place, ref.key, ref.root, ref))
        elif place > self.kept[0][0]:
            heapq.heapreplace(self.kept, (place, ref.key, ref.root, ref))

    def first(self, count: int) -> list[ImageRef]:
        """References, hashes rising."""
        return [ref for _, _, _, ref in sorted(self.kept, key=lambda item: (-item[0], item[1]))[:count]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """An image to read, one of its stratum."""

    split: str
    stratum: Stratum
    ref: ImageRef


class Sampler:
    """Keeps the references with the smallest hashes of each stratum.

    Memory does not depend on the listing: a candidate's suffix is one of a closed list, and a size has at most 64 bits.
    """

    def __init__(self, splits: int, images: int = SAMPLE_IMAGES) -> None:
        self._most = max(images // splits, min(images, LEAST_IMAGES))
        self._strata: dict[_Kind, Stratum] = {}

    def add(self, batch: RefBatch) -> None:
        """Looks at the references of a labelled batch."""
        if batch.split.startswith(Faulty.PREFIX):
            return
        for ref in unpack_refs(batch.refs):
            kind = batch.split, os.path.splitext(ref.key)[1].lower(), ref.stat.size.bit_length()
            stratum = self._strata.get(kind)
            if stratum is None:
                stratum = self._strata[kind] = Stratum()
            stratum.add(ref, self._most)

    def chosen(self) -> list[Chosen]:
        """What to read, strata and splits mixed so that any beginning is a sample too, with one of each stratum at first."""
        by_split: dict[str, list[Stratum]] = {}
        for (split, _, _), stratum in sorted(self._strata.items()):
            by_split.setdefault(split, []).append(stratum)
        placed = [
            (index / count, Chosen(split, stratum, ref))
            for split, strata in by_split.items()
            for stratum, count in allot(strata, self._most)
            for index, ref in enumerate(stratum.first(count))
        ]
        return [chosen for _, chosen in sorted(placed, key=lambda item: item[0])]


def allot(strata: Sequence[Stratum], images: int) -> list[tuple[Stratum, int]]:
    """How many of each stratum to read: ``images`` in all, half in proportion to images and half to bytes, one of each at least.

    Records are about as large as each other where images are resized, and as their sources where those are kept. Half of the
    reads for either case: at worst the error is that of the better half alone.
    """
    size, count = sum(stratum.size for stratum in strata), sum(stratum.images for stratum in strata)
    weights = {stratum: stratum.images * max(size, 1) + stratum.size * count for stratum in strata}
    left, weight = images, sum(weights.values())
    allotted = []
    # First the strata that are read whole: what they do not need goes to the others.
    for stratum in sorted(strata, key=lambda stratum: stratum.images / weights[stratum]):
        share = -(-left * weights[stratum] // weight)
        allotted.append((stratum, min(max(share, 1), stratum.images)))
        left, weight = left - allotted[-1][1], weight - weights[stratum]
    return allotted


@dataclass(frozen=True, slots=True)
class SampleResult:
    """An image that was encoded: bytes of its record (0 for a reject), why it was rejected, and seconds of CPU and in all."""

    size: int
    reason: str | None = None
    cpu: float = 0.0
    seconds: float = 0.0

    @property
    def for_good(self) -> bool:
        """Whether a rerun would reject it too: what changed while it was read may be whole by then."""
        return self.reason not in (None, Reason.CHANGED.value)


@dataclass(frozen=True, slots=True)
class StratumSample:
    """What became of those of a stratum's ``images`` that were read, at least one."""

    images: int
    outcomes: Sequence[SampleResult]

    def variance(self) -> float:
        """Of ``images`` times the mean size: 0 where all were read; one alone is taken to be as far off as it is large."""
        sizes = [outcome.size for outcome in self.outcomes]
        spread = variance(sizes) if len(sizes) > 1 else sizes[0] ** 2
        return self.images**2 * spread / len(sizes) * (1 - len(sizes) / self.images)


@dataclass(frozen=True, slots=True)
class SplitSample:
    """What the sample says of a split: each of its strata by its own images."""

    strata: Sequence[StratumSample]

    def total(self, value: Callable[[SampleResult], float]) -> float:
        """Sum of a value over all images of the split."""
        return sum(stratum.images * fmean(map(value, stratum.outcomes)) for stratum in self.strata)

    @property
    def images(self) -> int:
        """All of the split."""
        return sum(stratum.images for stratum in self.strata)

    @property
    def bytes(self) -> int:
        """Of all records."""
        return round(self.total(lambda outcome: outcome.size))

    @property
    def rejects(self) -> int:
        """Images that will not become a record; all of them only if none that was read did."""
        if all(outcome.reason for stratum in self.strata for outcome in stratum.outcomes):
            return self.images
        return min(round(self.total(lambda outcome: outcome.reason is not None)), self.images - 1)

    @property
    def sure_rejects(self) -> int:
        """As many images as this will not become a record, as good as certainly: at least those that were read."""
        bad = [(stratum, sum(outcome.for_good for outcome in stratum.outcomes)) for stratum in self.strata]
        least = spread = 0.0
        for stratum, count in bad:
            read = len(stratum.outcomes)
            least += stratum.images * count / read
            share = (count + 1) / (read + 2)  # Laplace's: of a few, none or all may be chance
            spread += stratum.images**2 * share * (1 - share) / read * (1 - read / stratum.images)
        return max(math.ceil(least - _SURE * math.sqrt(spread) - 1e-6), sum(count for _, count in bad))

    @property
    def surely_none(self) -> bool:
        """Whether no image will become a record, whatever a rerun would read."""
        return self.sure_rejects == self.images

    @property
    def error(self) -> float:
        """Twice the standard error of ``bytes``, as a share of it; 0 when every image was read."""
        return 2 * math.sqrt(sum(stratum.variance() for stratum in self.strata)) / max(self.bytes, 1)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the sample of so many ``images`` showed.

    ``rejected``: of these images, by reason; ``usable``: keys of those that did not change meanwhile, and whether each became a
    record. ``cpu_seconds``: of an image of the input; ``rate``: images of the input a second with all threads of this process.
    Both weigh the strata, since large images take longer and more of them are read.
    """

    splits: Mapping[str, SplitSample]
    images: int
    rejected: Mapping[str, int]
    usable: Sequence[tuple[bytes, bool]]
    cpu_seconds: float
    rate: float


def calibrate(encoder: SliceEncoder, chosen: Sequence[Chosen], threads: int) -> Calibration:
    """Reads and encodes the chosen images with ``threads`` threads; writes nothing.

    Raises:
        ShardfeedError: the input cannot be read.
    """
    least = max(LEAST_IMAGES, len({item.stratum for item in chosen}))

    def measure(index: int) -> SampleResult | None:
        start, cpu = time.perf_counter(), time.thread_time()
        if index >= least and start - began > SAMPLE_SECONDS:
            return None
        size, reason = encoder.try_out(chosen[index].ref)
        return SampleResult(size, reason, time.thread_time() - cpu, time.perf_counter() - start)

    with ThreadPoolExecutor(threads, thread_name_prefix="sample") as pool:
        # What only the first image of a process costs. Never in the main thread, which would not hear of Ctrl-C while it reads.
        pool.submit(encoder.try_out, chosen[0].ref).result()
        began = time.perf_counter()
        measured = list(pool.map(measure, range(len(chosen))))
    return conclude(chosen, measured, time.perf_counter() - began)


def conclude(chosen: Sequence[Chosen], measured: Sequence[SampleResult | None], seconds: float) -> Calibration:
    """The calibration from what became of each chosen image, None if it was not read; ``seconds``: of it all."""
    found: dict[str, dict[Stratum, list[SampleResult]]] = {}
    rejected: dict[str, int] = {}
    usable: list[tuple[bytes, bool]] = []
    for item, outcome in zip(chosen, measured, strict=True):
        if outcome is not None:
            found.setdefault(item.split, {}).setdefault(item.stratum, []).append(outcome)
            if outcome.reason is None or outcome.for_good:
                usable.append((item.ref.key, outcome.reason is None))
            if outcome.reason is not None:
                rejected[outcome.reason] = rejected.get(outcome.reason, 0) + 1
    splits = {
        split: SplitSample([StratumSample(stratum.images, outcomes) for stratum, outcomes in strata.items()])
        for split, strata in found.items()
    }
    read = [outcome for outcome in measured if outcome is not None]
    images = sum(split.images for split in splits.values())
    cpu = sum(split.total(lambda outcome: outcome.cpu) for split in splits.values())
    alone = sum(
        split.total(lambda outcome: outcome.seconds) for split in splits.values()
    )  # all images, one after another
    side_by_side = sum(outcome.seconds for outcome in read) / max(seconds, 1e-9)
    return Calibration(splits, len(read), rejected, usable, cpu / images, side_by_side * images / max(alone, 1e-9))
