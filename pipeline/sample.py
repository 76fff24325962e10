"""A few hundred of the listed images, chosen by hash and encoded for real: what a forecast is calibrated on.

The one decision: sizes and seconds are measured on the input itself. A table of bytes a pixel is right for photos and wrong for
scans and drawings, and no table knows this machine. The sample is the images with the smallest hashes, so it is random in
content, and the same for every listing order.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from shardfeed.hashing import hash64
from transforms.elements import ImageRef, RefBatch, unpack_refs
from transforms.encoding import PartEncoder
from transforms.labels import Faulty

SAMPLE_IMAGES = 400  # of all splits; photos' encoded sizes vary by 40 %, which leaves 2 % of error
LEAST_IMAGES = 100  # of each split, however many splits there are; and in all, however long they take
SAMPLE_SECONDS = 20.0  # after which no more than LEAST_IMAGES are read


class Sampler:
    """Keeps the references with the smallest hashes, by split; memory does not depend on the listing."""

    def __init__(self, splits: int, images: int = SAMPLE_IMAGES) -> None:
        self._most = max(images // splits, min(images, LEAST_IMAGES))
        self._heaps: dict[str, list[tuple[int, bytes, ImageRef]]] = {}

    def add(self, batch: RefBatch) -> None:
        """Looks at the references of a labelled batch."""
        if batch.split.startswith(Faulty.PREFIX):
            return
        heap = self._heaps.setdefault(batch.split, [])
        for ref in unpack_refs(batch.refs):
            place = -hash64("plan", 0, ref.key)
            if len(heap) < self._most:
                heapq.heappush(heap, (place, ref.key, ref))
            elif place > heap[0][0]:
                heapq.heapreplace(heap, (place, ref.key, ref))

    def chosen(self) -> list[tuple[str, ImageRef]]:
        """(split, reference), splits in turn and hashes rising, so that any beginning is a sample too."""
        columns = [
            [(split, ref) for _, _, ref in sorted(heap, key=lambda item: (-item[0], item[1]))]
            for split, heap in sorted(self._heaps.items())
        ]
        rows = itertools.zip_longest(*columns)
        return [item for row in rows for item in row if item is not None]


@dataclass(slots=True)
class SplitSample:
    """Images of a split that were encoded: the size of each record (0 for a reject), and rejects by reason."""

    sizes: list[int] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)

    @property
    def written(self) -> float:
        """Share of the images that became a record."""
        return 1 - sum(self.rejected.values()) / len(self.sizes)

    def total(self, images: int) -> int:
        """Bytes of ``images``, of which these are a sample."""
        return round(sum(self.sizes) * images / len(self.sizes))

    def error(self, images: int) -> float:
        """Twice the standard error of ``total``, as a share of it; 0 when every image was read."""
        count, mean = len(self.sizes), sum(self.sizes) / len(self.sizes)
        if count >= images or not mean:
            return 0.0
        variance = sum((size - mean) ** 2 for size in self.sizes) / max(count - 1, 1)
        return 2 * math.sqrt(variance / count * (1 - count / images)) / mean


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the sample showed. ``cpu_seconds``: of one image; ``rate``: images a second with all threads of this process."""

    splits: Mapping[str, SplitSample]
    images: int
    cpu_seconds: float
    rate: float


def calibrate(encoder: PartEncoder, chosen: Sequence[tuple[str, ImageRef]], threads: int) -> Calibration:
    """Reads and encodes the chosen images with ``threads`` threads; writes nothing.

    Raises:
        ShardfeedError: the input cannot be read.
    """
    encoder.try_out(chosen[0][1])  # what only the first image of a process costs
    began = time.perf_counter()

    def measure(index: int) -> tuple[int, str | None, float] | None:
        if index >= LEAST_IMAGES and time.perf_counter() - began > SAMPLE_SECONDS:
            return None
        start = time.thread_time()
        size, reason = encoder.try_out(chosen[index][1])
        return size, reason, time.thread_time() - start

    with ThreadPoolExecutor(threads, thread_name_prefix="sample") as pool:
        measured = list(pool.map(measure, range(len(chosen))))
    seconds = time.perf_counter() - began
    splits: dict[str, SplitSample] = {}
    images, cpu = 0, 0.0
    for (split, _), found in zip(chosen, measured, strict=True):
        if found is not None:
            size, reason, spent = found
            sample = splits.setdefault(split, SplitSample())
            sample.sizes.append(size)
            if reason is not None:
                sample.rejected[reason] = sample.rejected.get(reason, 0) + 1
            images, cpu = images + 1, cpu + spent
    return Calibration(splits, images, cpu / images, images / max(seconds, 1e-9))
