"""A few hundred listed images, chosen by hash and encoded for real, to calibrate a forecast.

Sizes and seconds are measured on the input itself. A table of bytes per pixel is right for photos
and wrong for scans and drawings, and no table knows this machine.

The sample is stratified by what the listing shows of a file: its suffix and its size. If the input
holds many logos and a few photos, a plain sample knows the size of either, but not how many photos
there are. Within a stratum the images with the smallest hashes are read, so the sample is random in
content and the same for every order of the listing.
"""

from __future__ import annotations

import heapq
import math
import os.path
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import fmean, variance

from shardfeed.format.hashing import hash64
from shardfeed.transforms.elements import ImageRef, RefBatch, unpack_refs
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.images.rejects import Reason

SAMPLE_IMAGES = 400  # of all splits; photos' encoded sizes vary by 40 %, which leaves 2 % of error
LEAST_IMAGES = 100  # of each split, however many splits there are; and in all, however long they take
SAMPLE_SECONDS = 20.0  # after this only LEAST_IMAGES are read, or one of each stratum if these are more

_SURE = 4  # standard errors: 1 of 30,000 estimates is farther off


@dataclass(frozen=True, slots=True)
class Trial:
    """An image that was encoded, but not written.

    ``size``: bytes of its record, 0 for a reject. ``reason``: of the reject. ``cpu``, ``seconds``:
    CPU time and elapsed time.
    """

    size: int
    reason: str | None = None
    cpu: float = 0.0
    seconds: float = 0.0

    @property
    def rejected_for_good(self) -> bool:
        """Whether a rerun would reject it too. A file that changed meanwhile may be good then."""
        return self.reason not in (None, Reason.CHANGED.value)


@dataclass(eq=False, slots=True)
class Stratum:
    """Images of a split with the same suffix and, within a factor of two, the same size.

    ``images``, ``source_bytes``: of all of them. ``kept``: those with the smallest hashes, a heap
    of (minus the hash, key, root, reference). ``trials``: those that were read.
    """

    split: str
    images: int = 0
    source_bytes: int = 0
    kept: list[tuple[int, bytes, int, ImageRef]] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def add(self, ref: ImageRef, most: int) -> None:
        """Counts an image, and keeps it if its hash is among the ``most`` smallest."""
        self.images += 1
        self.source_bytes += ref.stat.size
        item = (-hash64("plan", 0, ref.key), ref.key, ref.root, ref)
        if len(self.kept) < most:
            heapq.heappush(self.kept, item)
        else:
            heapq.heappushpop(self.kept, item)

    def variance(self) -> float:
        """Variance of ``images`` times the mean record size; 0 if all images were read.

        A single trial is taken to be as far off as it is large.
        """
        sizes, read = [trial.size for trial in self.trials], len(self.trials)
        spread = variance(sizes) if read > 1 else sizes[0] ** 2
        return self.images**2 * spread / read * (1 - read / self.images)


Chosen = tuple[Stratum, ImageRef]  # an image to read, and its stratum


class Sampler:
    """Keeps the references with the smallest hashes of each stratum.

    Memory does not depend on the listing: a candidate's suffix is one of a closed list, and a size
    has at most 64 bits.
    """

    def __init__(self, splits: int, images: int = SAMPLE_IMAGES) -> None:
        self._most = max(images // splits, min(images, LEAST_IMAGES))
        self._strata: dict[tuple[str, bytes, int], Stratum] = {}  # by split, suffix and bits of the size

    def add(self, batch: RefBatch) -> None:
        """Counts the references of a labelled batch."""
        if batch.fault:
            return
        for ref in unpack_refs(batch.refs):
            kind = batch.split, os.path.splitext(ref.key)[1].lower(), ref.stat.size.bit_length()
            self._strata.setdefault(kind, Stratum(batch.split)).add(ref, self._most)

    def chosen(self) -> list[Chosen]:
        """What to read. Any beginning is a sample too; it begins with one image of each stratum."""
        by_split = defaultdict(list)
        for kind in sorted(self._strata):
            by_split[kind[0]].append(self._strata[kind])
        placed = []
        for strata in by_split.values():
            for stratum, count in allot(strata, self._most):
                smallest = sorted(stratum.kept, reverse=True)[:count]
                placed += [(index / count, (stratum, item[-1])) for index, item in enumerate(smallest)]
        return [chosen for _, chosen in sorted(placed, key=lambda item: item[0])]


def allot(strata: Sequence[Stratum], images: int) -> list[tuple[Stratum, int]]:
    """How many images to read of each stratum, at least one: ``images`` in all.

    Half of them are shared out by number of images and half by bytes. Records are about as large as
    each other if images are resized, and about as large as their sources if those are kept. With
    half of the reads for either case, the error is at worst that of the better half alone.
    """
    size, count = sum(stratum.source_bytes for stratum in strata), sum(stratum.images for stratum in strata)
    weights = {stratum: stratum.images * max(size, 1) + stratum.source_bytes * count for stratum in strata}
    left, weight = images, sum(weights.values())
    allotted = []
    # The strata that are read whole come first: what they do not need goes to the others.
    for stratum in sorted(strata, key=lambda stratum: stratum.images / weights[stratum]):
        share = min(max(-(-left * weights[stratum] // weight), 1), stratum.images)
        allotted.append((stratum, share))
        left, weight = left - share, weight - weights[stratum]
    return allotted


@dataclass(frozen=True, slots=True)
class SplitSample:
    """What the trials of a split's strata say of the whole split."""

    strata: Sequence[Stratum]

    def total(self, value: Callable[[Trial], float]) -> float:
        """Estimated sum of a value over all images of the split."""
        return sum(stratum.images * fmean(map(value, stratum.trials)) for stratum in self.strata)

    @property
    def images(self) -> int:
        """Number of images listed."""
        return sum(stratum.images for stratum in self.strata)

    @property
    def bytes(self) -> int:
        """Estimated bytes of all records."""
        return round(self.total(lambda trial: trial.size))

    @property
    def rejects(self) -> int:
        """Estimated number of rejects; all images only if every trial was rejected."""
        if all(trial.reason for stratum in self.strata for trial in stratum.trials):
            return self.images
        return min(round(self.total(lambda trial: trial.reason is not None)), self.images - 1)

    @property
    def sure_rejects(self) -> int:
        """Rejects that there will be at least: the estimate less four errors, or those seen."""
        seen, estimate, spread = 0, 0.0, 0.0
        for stratum in self.strata:
            read, bad = len(stratum.trials), sum(trial.rejected_for_good for trial in stratum.trials)
            seen, estimate = seen + bad, estimate + stratum.images * bad / read
            share = (bad + 1) / (read + 2)  # Laplace's rule: if few were read, none or all may be chance
            spread += stratum.images**2 * share * (1 - share) / read * (1 - read / stratum.images)
        return max(math.ceil(estimate - _SURE * math.sqrt(spread) - 1e-6), seen)

    @property
    def error(self) -> float:
        """Two standard errors of ``bytes``, as a share of it; 0 if every image was read."""
        return 2 * math.sqrt(sum(stratum.variance() for stratum in self.strata)) / max(self.bytes, 1)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the sample showed. ``trials``: each image read, with its trial; ``seconds``: for all.

    Times are weighed by stratum, because large images take longer and more of them are read.
    """

    splits: Mapping[str, SplitSample]
    trials: Sequence[tuple[ImageRef, Trial]]
    seconds: float

    @property
    def rejected(self) -> Mapping[str, int]:
        """Rejects among the trials, by reason."""
        return Counter(trial.reason for _, trial in self.trials if trial.reason is not None)

    @property
    def cpu_seconds(self) -> float:
        """CPU time per image of the input."""
        return self._mean(lambda trial: trial.cpu)

    @property
    def rate(self) -> float:
        """Images of the input per second, with all threads of this process."""
        threads_busy = sum(trial.seconds for _, trial in self.trials) / max(self.seconds, 1e-9)
        return threads_busy / max(self._mean(lambda trial: trial.seconds), 1e-9)

    def _mean(self, value: Callable[[Trial], float]) -> float:
        splits = self.splits.values()
        return sum(split.total(value) for split in splits) / sum(split.images for split in splits)


def calibrate(encoder: SliceEncoder, chosen: Sequence[Chosen], threads: int) -> Calibration:
    """Reads and encodes the chosen images with ``threads`` threads; writes nothing.

    Raises:
        ShardfeedError: the input cannot be read.
    """
    least = max(LEAST_IMAGES, len({stratum for stratum, _ in chosen}))

    def measure(index: int) -> Trial | None:
        start, cpu = time.perf_counter(), time.thread_time()
        if index >= least and start - began > SAMPLE_SECONDS:
            return None
        size, reason = encoder.try_out(chosen[index][1])
        return Trial(size, reason, time.thread_time() - cpu, time.perf_counter() - start)

    with ThreadPoolExecutor(threads, thread_name_prefix="sample") as pool:
        # The first image of a process costs more: it is not measured. A thread reads it, because
        # Ctrl-C would not reach the main thread while it reads.
        pool.submit(encoder.try_out, chosen[0][1]).result()
        began = time.perf_counter()
        trials = list(pool.map(measure, range(len(chosen))))
    return conclude(chosen, trials, time.perf_counter() - began)


def conclude(chosen: Sequence[Chosen], trials: Sequence[Trial | None], seconds: float) -> Calibration:
    """Adds each trial to its stratum, and gives the calibration.

    A trial is None if its image was not read. ``seconds``: elapsed time of all trials together.
    """
    read = []
    for (stratum, ref), trial in zip(chosen, trials, strict=True):
        if trial is not None:
            stratum.trials.append(trial)
            read.append((ref, trial))
    by_split = defaultdict(list)
    for stratum in dict.fromkeys(stratum for stratum, _ in chosen):  # each once, in order
        by_split[stratum.split].append(stratum)
    return Calibration({split: SplitSample(strata) for split, strata in by_split.items()}, read, seconds)
