"""References to a finished part: the job's hot path, without Beam.

A thread a part looks for what an earlier run left, puts the part's references into the order of their hashes, collects their
slices in that order and writes. The one decision: ``PartEncoder`` keeps the next parts in flight while one is written, so that
the threads that encode never idle between parts, nor while a bucket answers.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, cast

from shardfeed import storage
from shardfeed.checksums import crc32c
from shardfeed.errors import IncompleteError, UsageError, clip
from shardfeed.hashing import MASK128, hash64
from shardfeed.storage import retry
from transforms.elements import ImageRef, PartResult, Plan, unpack_refs
from transforms.images.process import PixelStats
from transforms.options import BuildOptions
from transforms.parts import Sidecar, commit_part, find_part
from transforms.reconciling import ENGINE_FAULT
from transforms.run_state import RUN, HelperGoneError, Helpers, Made
from transforms.slices import Slice, SliceEncoder
from transforms.spent import Spent

MEMORY_PART = 64 << 20  # bytes of a part kept in memory before it goes to a temporary file
REMOTE_PARTS = 7  # parts in flight beside the one that is waited for: each costs three answers of a bucket in turn
_LOOK_SECONDS = 0.2  # between two looks whether the run shall stop


@dataclass(eq=False, slots=True)
class _InFlight:
    """A part that is being made, ``here`` or by a helper."""

    split: str
    part: int
    packed: Sequence[bytes]
    made: Made
    here: bool


class PartEncoder:
    """Makes parts with ``threads`` threads (0 = by default) and, where it may, with ``helpers``.

    ``encoders``: of a bucket's images, while the threads read (0 = one for each of this process's cores).
    ``processes``: how many on this machine share its cores and the budgets of memory; the copies in one process share threads and
    budgets anyway. ``spent``: what each part took, for the caller to take out. Not thread-safe itself: one caller submits and
    collects. Close it to end its threads.
    """

    def __init__(
        self,
        *,
        sources: Sequence[str],
        output: str,
        plan: Plan,
        options: BuildOptions,
        threads: int,
        encoders: int = 0,
        processes: int = 1,
        helpers: Helpers | None = None,
    ) -> None:
        self._slices = SliceEncoder.shared(
            sources=list(sources), plan=plan, options=options, threads=threads, encoders=encoders, processes=processes
        )
        self._sources, self._store = sources, storage.open_store(output)
        self._plan, self._options = plan, options
        # One ahead on a disk, so that the pool has work while a part is written; more where a small part cannot feed all threads.
        self._ahead = max(REMOTE_PARTS if storage.is_remote(output) else 1, self._slices.threads // 4)
        self._parts = ThreadPoolExecutor(self._ahead + 1, thread_name_prefix="part")
        self._helpers = helpers
        if helpers:
            helpers.take_over()
        self._in_flight: list[_InFlight] = []
        self.spent: dict[tuple[str, int], Spent] = {}

    def close(self) -> None:
        """Ends the threads; parts in flight are dropped."""
        self._parts.shutdown(wait=True, cancel_futures=True)
        self._slices.close()

    def begin(self, split: str, part: int, packed: Sequence[bytes]) -> Made:
        """Makes a part with this encoder's own threads; ``packed``: batches of its references."""
        return self._parts.submit(self._make_part, split, part, packed)

    def try_out(self, ref: ImageRef) -> tuple[int, str | None]:
        """(bytes of the record, None) or (0, reason of the reject) of an image, encoded as in a build but not written."""
        done = self._slices.encode_slice([ref])
        return (len(done.records[0]), None) if done.records else (0, done.rejects[0][1])

    def submit(self, split: str, part: int, packed: Sequence[bytes]) -> Iterator[PartResult]:
        """Takes a part on; yields the parts that are finished by then, this one perhaps later (see ``flush``).

        Raises:
            UsageError: two roots hold the same key.
            IncompleteError: a root's key came twice.
        """
        self._in_flight.append(self._send(split, part, packed))
        yield from self._finished(0.0)
        while not self._has_room():
            yield from self._finished(_LOOK_SECONDS)

    def flush(self) -> Iterator[PartResult]:
        """The parts still in flight."""
        while self._in_flight:
            yield from self._finished(_LOOK_SECONDS)

    def _send(self, split: str, part: int, packed: Sequence[bytes]) -> _InFlight:
        made = self._helpers.submit(self._plan, split, part, packed) if self._helpers is not None else None
        if made is None:
            return _InFlight(split, part, packed, self.begin(split, part, packed), here=True)
        return _InFlight(split, part, packed, made, here=False)

    def _has_room(self) -> bool:
        here = sum(flight.here for flight in self._in_flight)
        return here <= self._ahead or (self._helpers is not None and self._helpers.has_room())

    def _finished(self, seconds: float) -> Iterator[PartResult]:
        """What is finished within so many seconds from now; counts what was made here (a helper's parts are counted already)."""
        RUN.check()
        wait([flight.made for flight in self._in_flight], seconds, FIRST_COMPLETED)
        still = []
        for flight in self._in_flight:
            if not flight.made.done():
                still.append(flight)
            elif isinstance(flight.made.exception(), HelperGoneError):
                flight.made, flight.here = self.begin(flight.split, flight.part, flight.packed), True
                still.append(flight)
        done = [flight for flight in self._in_flight if flight not in still]
        self._in_flight = still
        for flight in done:
            result, spent = flight.made.result()
            if flight.here:
                RUN.add(result, kept=spent.kept)
            self.spent[result.split, result.part] = spent
            yield result

    def _make_part(self, split: str, part: int, packed: Sequence[bytes]) -> tuple[PartResult, Spent]:
        """(result, what it took) of one part, from the look for its sidecar to its commit."""
        began = retry.waits()  # of this thread: images are read by others
        found = find_part(self._store, self._plan.fingerprint, split, part)
        looked = retry.waits()
        if found is not None:
            return found.result, Spent(read_retries=looked - began, kept=True)
        ordered = self._in_order(ref for batch in packed for ref in unpack_refs(batch))
        result, spent = self._finish(split, part, self._slices.encode(ordered))
        spent.read_retries += looked - began
        spent.write_retries += retry.waits() - looked
        return result, spent

    def _in_order(self, refs: Iterable[ImageRef]) -> list[ImageRef]:
        """References as their records shall lie in the part."""
        seed = self._options.seed
        hashed = sorted(
            ((hash64("part", seed, ref.key), ref.key, ref.root, ref) for ref in refs), key=lambda item: item[:3]
        )
        for (_, key, one, _), (_, other, two, _) in pairwise(hashed):
            if key == other and one == two:
                raise IncompleteError(f"{clip(key)} came twice out of one listing. {ENGINE_FAULT}")
            if key == other:
                raise UsageError(
                    f"{clip(key)} is in two inputs: {clip(self._sources[one])} and {clip(self._sources[two])}. "
                    "A key is a record's name and must be unique: give one --input that holds both as folders, or rename, "
                    "then rerun with --discard_incomplete."
                )
        return [item[3] for item in hashed]

    def _finish(self, split: str, part: int, slices: Iterable[Slice]) -> tuple[PartResult, Spent]:
        """Writes and commits a part."""
        merged, sizes, crc, size = Slice(), [], 0, 0
        with tempfile.SpooledTemporaryFile(max_size=MEMORY_PART) as spool:
            for done in slices:
                RUN.check()  # after the slice: one ends early only when the flag is up
                for record in done.records:
                    spool.write(record)
                    crc = crc32c(record, crc)
                    size += len(record)
                    sizes.append(len(record))
                merged.merge(done)
            rejected: dict[str, int] = {}
            for _, reason, _ in merged.rejects:
                rejected[reason] = rejected.get(reason, 0) + 1
            result = PartResult(
                split=split,
                part=part,
                bytes=size,
                records=len(sizes),
                crc32c=crc,
                key_sum=merged.key_sum & MASK128,
                rejected=rejected,
                fixes=merged.fixes,
                class_counts=merged.class_counts,
                stats=_sum_stats(merged.stats),
            )
            sidecar = Sidecar(result, tuple(sizes), tuple(merged.rejects), self._plan.versions)
            began = time.perf_counter()
            result = commit_part(self._store, self._plan.fingerprint, sidecar, cast(BinaryIO, spool))
            merged.spent.write = time.perf_counter() - began
            return result, merged.spent


def _sum_stats(stats: list[PixelStats]) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    if not stats:
        return None
    return (
        sum(s.count for s in stats),
        tuple(map(sum, zip(*(s.sums for s in stats), strict=True))),
        tuple(map(sum, zip(*(s.squares for s in stats), strict=True))),
    )
