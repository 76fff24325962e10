"""References to a finished part: the job's hot path, without Beam.

A pool of threads takes slices of a part (reading, decoding, resizing and encoding all release the GIL); a thread a part looks for
what an earlier run left, collects the slices in order and writes. ``PartEncoder`` keeps the next parts in flight while one is
written, so the pool never idles between parts, nor while a bucket answers. Images of a bucket are read by that pool, as many
threads as hide its answers, and encoded by one thread a core: more would drive each other's pixels out of the processor's caches.
What is in flight is bounded twice: by the number of slices, and by bytes (sources read and pixels decoded, each under a budget of
its own, always taken in that order).
"""

from __future__ import annotations

import functools
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise
from typing import BinaryIO, cast

from shardfeed import storage, tfrecord
from shardfeed.checksums import crc32c
from shardfeed.errors import UsageError, clip
from shardfeed.example import encode_feature, join_features
from shardfeed.hashing import MASK128, hash64, key_hash
from shardfeed.storage import retry
from shardfeed.storage.base import ChangedError, ChecksumError, Source, Store
from transforms.elements import ImageRef, PartResult, Plan, unpack_refs
from transforms.images.limits import MAX_FILE_BYTES
from transforms.images.process import PixelStats, check_size, process_image
from transforms.images.rejects import Reason, RejectError
from transforms.labels import FOLDERS, class_of
from transforms.machine import cores, default_threads
from transforms.options import BuildOptions
from transforms.parts import Sidecar, commit_part, find_part
from transforms.run_state import RUN, HelperGoneError, Helpers, Made
from transforms.spent import Spent

MEMORY_PART = 64 << 20  # bytes of a part kept in memory before it goes to a temporary file
SOURCE_BUDGET = 128 << 20  # bytes of sources in memory at once; one source is at most 64 MB
PIXEL_BUDGET = 256 << 20  # bytes of decoded pixels at once; one image is at most 64 Mpx x 3 = 192 MB
STATS_IMAGES = 2_000  # images sampled for mean and std: a standard error below 1 level of 255 for photos
REMOTE_PARTS = 7  # parts in flight beside the one that is waited for: each costs three answers of a bucket in turn
_LOOK_SECONDS = 0.2  # between two looks whether the run shall stop
# Least and most images a task: at 6 the pool costs 4 % more CPU than at 24, but a part must spread over the threads.
_SLICE_IMAGES = (4, 16)
_SLICE_BYTES = 8 << 20  # bytes of sources a task, about, at most


class Budget:
    """A semaphore in bytes. A request above the whole budget waits until it is alone."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used, self._free = limit, 0, threading.Condition()

    def hold(self, size: int) -> _Held:
        """Holds ``size`` bytes for the length of a with block."""
        return _Held(self, size)

    def take(self, size: int) -> None:
        """Waits until ``size`` bytes are free, and takes them."""
        with self._free:
            while self._used and self._used + size > self._limit:
                self._free.wait()
            self._used += size

    def give(self, size: int) -> None:
        """Gives ``size`` bytes back."""
        with self._free:
            self._used -= size
            self._free.notify_all()


class _Held:
    """A with block's share of a budget; a class, since a generator-based one costs three times as much a use."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget, self._size = budget, size

    def __enter__(self) -> None:
        self._budget.take(self._size)

    def __exit__(self, *_: object) -> None:
        self._budget.give(self._size)


@dataclass(slots=True)
class _Slice:
    """What one task made: framed records or rejects, in the order of its references.

    ``key_sum`` is summed where a record or a reject is added, not from what was asked for: it has to prove that nothing is lost.
    """

    records: list[bytes] = field(default_factory=list)
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    fixes: dict[str, int] = field(default_factory=dict)
    class_counts: dict[str, int] = field(default_factory=dict)
    stats: list[PixelStats] = field(default_factory=list)
    key_sum: int = 0
    spent: Spent = field(default_factory=Spent)


@dataclass(slots=True)
class _Pending:
    """A part whose slices are in the pool."""

    split: str
    part: int
    slices: deque[Future[_Slice | Future[_Slice]]]


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
    ``processes``: how many on this machine share its cores and the budgets of memory. ``spent``: what each part took that this
    run made, for the caller to take out. Not thread-safe itself: one caller submits and collects. Close it to end its threads.
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
        self._sources: list[Source] = [storage.open_source(url) for url in sources]
        self._store: Store = storage.open_store(output)
        self._plan, self._options = plan, options
        self._by_folders = options.splits == FOLDERS
        self._class_feature = {name: encode_feature("class", index) for index, name in enumerate(plan.classes)}
        self._label_feature = {name: encode_feature("label", name.encode()) for name in plan.classes}
        share = (STATS_IMAGES << 64) // plan.candidates
        self._stats_below = min(1 << 64, share)
        self._threads = threads or default_threads(sources)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="encode")
        self._encoders: ThreadPoolExecutor | None = None
        if any(map(storage.is_remote, sources)):
            encoders = encoders or max(cores() // processes, 1)
            self._encoders = ThreadPoolExecutor(min(self._threads, encoders), thread_name_prefix="encode-fetched")
        self._source_budget = Budget(SOURCE_BUDGET // processes)
        # Of all readers one slice and as many again behind them fit into the budget, so that none waits for another's.
        self._slice_bytes = min(_SLICE_BYTES, SOURCE_BUDGET // processes // (2 * self._threads))
        self._pixel_budget = Budget(PIXEL_BUDGET // processes)
        # One ahead on a disk, so that the pool has work while a part is written; more where a small part cannot feed all threads.
        self._ahead = max(REMOTE_PARTS if storage.is_remote(output) else 1, self._threads // 4)
        self._parts = ThreadPoolExecutor(self._ahead + 1, thread_name_prefix="part")
        self._helpers = helpers
        self._begun = dict(helpers.take_over()) if helpers else {}
        self._in_flight: list[_InFlight] = []
        self.spent: dict[tuple[str, int], Spent] = {}

    def close(self) -> None:
        """Ends the threads; parts in flight are dropped."""
        self._parts.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._encoders is not None:
            self._encoders.shutdown(wait=True, cancel_futures=True)

    def begin(self, split: str, part: int, packed: Sequence[bytes]) -> Made:
        """Makes a part with this encoder's own threads; ``packed``: batches of its references."""
        return self._parts.submit(self._make_part, split, part, packed)

    def try_out(self, ref: ImageRef) -> tuple[int, str | None]:
        """(bytes of the record, None) or (0, reason of the reject) of an image, encoded as in a build but not written."""
        done = self._encode_slice([ref])
        return (len(done.records[0]), None) if done.records else (0, done.rejects[0][1])

    def submit(self, split: str, part: int, packed: Sequence[bytes]) -> Iterator[PartResult]:
        """Takes a part on; yields the parts that are finished by then, this one perhaps later (see ``flush``).

        Raises:
            UsageError: two roots hold the same key.
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
        made = self._begun.pop((split, part), None)
        if made is None and self._helpers is not None:
            made = self._helpers.submit(self._plan, split, part, packed)
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
                RUN.add(result, kept=spent is None)
            if spent is not None:
                self.spent[result.split, result.part] = spent
            yield result

    def _make_part(self, split: str, part: int, packed: Sequence[bytes]) -> tuple[PartResult, Spent | None]:
        """(result, what it took, None if it was there already) of one part, from the look for its sidecar to its commit."""
        found = find_part(self._store, self._plan.fingerprint, split, part)
        if found is not None:
            return found.result, None
        refs = [ref for batch in packed for ref in unpack_refs(batch)]
        return self._finish(self._start(split, part, refs))

    def _start(self, split: str, part: int, refs: list[ImageRef]) -> _Pending:
        seed = self._options.seed
        hashed = sorted((hash64("part", seed, ref.key), ref.key, ref.root, ref) for ref in refs)
        for (_, key, one, _), (_, other, two, _) in pairwise(hashed):
            if key == other:
                raise UsageError(
                    f"{clip(key)} is in two inputs: {clip(self._sources[one].url)} and {clip(self._sources[two].url)}. "
                    "A key is a record's name and must be unique: give one --input that holds both as folders, or rename, "
                    "then rerun with --discard_incomplete."
                )
        ordered = [item[3] for item in hashed]
        task: Callable[[Sequence[ImageRef]], _Slice | Future[_Slice]]
        task = self._encode_slice if self._encoders is None else self._fetch_slice
        pieces = _slices(ordered, self._threads, self._slice_bytes)
        return _Pending(split, part, deque(self._pool.submit(task, piece) for piece in pieces))

    def _finish(self, pending: _Pending) -> tuple[PartResult, Spent]:
        merged, sizes, crc, size = _Slice(), [], 0, 0
        with tempfile.SpooledTemporaryFile(max_size=MEMORY_PART) as spool:
            while pending.slices:
                done = pending.slices.popleft().result()
                done = done if isinstance(done, _Slice) else done.result()
                RUN.check()  # after the result: a slice ends early only when the flag is up
                for record in done.records:
                    spool.write(record)
                    crc = crc32c(record, crc)
                    size += len(record)
                    sizes.append(len(record))
                merged.key_sum += done.key_sum
                merged.rejects += done.rejects
                merged.stats += done.stats
                merged.spent.add(done.spent)
                _add(merged.fixes, done.fixes)
                _add(merged.class_counts, done.class_counts)
            rejected: dict[str, int] = {}
            for _, reason, _ in merged.rejects:
                rejected[reason] = rejected.get(reason, 0) + 1
            result = PartResult(
                split=pending.split,
                part=pending.part,
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

    def _encode_slice(self, refs: Sequence[ImageRef]) -> _Slice:
        out = _Slice()
        for ref in refs:
            if RUN.stop.is_set():
                break  # the part's thread sees the flag too, and drops the part
            with self._source_budget.hold(ref.stat.size):
                self._add(ref, self._fetch(ref, out.spent), out)
        return out

    def _fetch_slice(self, refs: Sequence[ImageRef]) -> Future[_Slice]:
        assert self._encoders is not None
        # All of it at once: readers that each held half of a slice and waited for the rest would wait for each other.
        size = sum(ref.stat.size for ref in refs if ref.stat.size <= MAX_FILE_BYTES)  # larger ones are not read
        self._source_budget.take(size)
        try:
            out = _Slice()
            fetched = [(ref, self._fetch(ref, out.spent)) for ref in refs if not RUN.stop.is_set()]
            return self._encoders.submit(self._encode_fetched, fetched, size, out)
        except BaseException:
            self._source_budget.give(size)
            raise

    def _encode_fetched(
        self, fetched: Sequence[tuple[ImageRef, bytes | RejectError]], size: int, out: _Slice
    ) -> _Slice:
        try:
            for ref, data in fetched:
                if RUN.stop.is_set():
                    break
                self._add(ref, data, out)
            return out
        finally:
            self._source_budget.give(size)

    def _add(self, ref: ImageRef, data: bytes | RejectError, out: _Slice) -> None:
        """A record or a reject to ``out``."""
        try:
            if isinstance(data, RejectError):
                raise data
            self._encode_one(ref, data, out)
        except RejectError as error:
            out.rejects.append((shown_key(ref.key), error.reason.value, clip(error.detail)))
            out.key_sum += key_hash(ref.key)

    def _encode_one(self, ref: ImageRef, data: bytes, out: _Slice) -> None:
        label = class_of(ref.key, self._by_folders)
        sampled = hash64("stats", self._options.seed, ref.key) < self._stats_below
        began = time.perf_counter()
        image = process_image(data, self._options.image, with_stats=sampled, reserve=self._pixel_budget.hold)
        out.spent.decode += time.perf_counter() - began - image.encode_seconds
        out.spent.encode += image.encode_seconds
        record = join_features(  # in the order of their names
            (
                self._class_feature[label],
                encode_feature("image", image.data),
                encode_feature("key", ref.key),
                self._label_feature[label],
                _size_feature(image.height, image.width),
            )
        )
        out.records.append(tfrecord.frame(record))
        out.key_sum += key_hash(ref.key)
        out.class_counts[label] = out.class_counts.get(label, 0) + 1
        for fix in image.fixes:
            out.fixes[fix] = out.fixes.get(fix, 0) + 1
        if image.stats is not None:
            out.stats.append(image.stats)

    def _fetch(self, ref: ImageRef, spent: Spent) -> bytes | RejectError:
        """An image's bytes, or why it cannot be one."""
        try:
            ref.key.decode("utf-8")
        except UnicodeDecodeError:
            return RejectError(Reason.NAME, "the file name is not UTF-8; rename it")
        began, waits = time.perf_counter(), retry.waits()
        try:
            check_size(ref.stat.size)
            data = self._sources[ref.root].read(ref.key, ref.stat)
            spent.bytes_in += len(data)
            return data
        except RejectError as error:
            return error
        except ChangedError as error:
            return RejectError(Reason.CHANGED, str(error))
        except ChecksumError as error:
            return RejectError(Reason.CHECKSUM, str(error))
        finally:
            spent.read += time.perf_counter() - began
            spent.retries += retry.waits() - waits


@functools.lru_cache(maxsize=1024)
def _size_feature(height: int, width: int) -> bytes:
    return encode_feature("size", [height, width])


def shown_key(key: bytes) -> str:
    """A key as rejects files show it: exact where it is UTF-8, else with backslash escapes."""
    return key.decode("utf-8", "backslashreplace")


def _slices(refs: list[ImageRef], threads: int, most_bytes: int) -> Iterator[list[ImageRef]]:
    least, most = _SLICE_IMAGES
    images = min(max(len(refs) // (2 * threads), least), most)
    piece: list[ImageRef] = []
    size = 0
    for ref in refs:
        piece.append(ref)
        size += ref.stat.size
        if len(piece) == images or size >= most_bytes:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _add(into: dict[str, int], counts: dict[str, int]) -> None:
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count


def _sum_stats(stats: list[PixelStats]) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    if not stats:
        return None
    return (
        sum(s.count for s in stats),
        tuple(map(sum, zip(*(s.sums for s in stats), strict=True))),
        tuple(map(sum, zip(*(s.squares for s in stats), strict=True))),
    )
