"""Slices of a part, a few images each: references become framed records or rejects, in threads.

Reading, decoding, resizing and encoding all release the interpreter's lock. If the images lie on a
disk, a thread encodes what it reads. If they lie in a bucket, one pool of threads reads, as many as
hide the bucket's answers, and another pool encodes, one thread per core: more would drive each
other's pixels out of the processor's caches. What cannot be an image becomes a reject. A fault of
the store is raised, because it is not the image's.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from shardfeed import storage
from shardfeed.errors import clip
from shardfeed.format import tfrecord
from shardfeed.format.example import encode_feature, feature_head, join_features
from shardfeed.format.hashing import hash64, key_hash
from shardfeed.runtime import cores
from shardfeed.transforms.elements import ImageRef, Plan, add_into
from shardfeed.transforms.encode.budget import PIXEL_BUDGET, SOURCE_BUDGET, Budget
from shardfeed.transforms.encode.threads import default_threads
from shardfeed.transforms.images.limits import MAX_FILE_BYTES, check_size
from shardfeed.transforms.images.process import process_image
from shardfeed.transforms.images.rejects import Reason, RejectError
from shardfeed.transforms.images.stats import Stats, add_stats
from shardfeed.transforms.inputs.labels import parse_splits
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.part_rows import FIX_BITS, pack_row
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.sources.base import ChangedError, ChecksumError, Source

STATS_IMAGES = 2_000  # images sampled for mean and std: a standard error below 1 level of 255 for photos
# Least and most images per slice: at 6 the pool costs 4 % more CPU than at 24, but a part must
# spread over the threads.
_SLICE_IMAGES = (4, 16)
_SLICE_BYTES = 8 << 20  # about the most bytes of sources per slice


@dataclass(slots=True)
class Slice:
    """What became of a slice: framed records or rejects, in the order of its references.

    ``rows`` and ``keys``: of the records, as ``PartRows`` has them.
    ``key_sum`` grows with each record or reject that is added, not with what was asked for: it
    proves that nothing is lost.
    """

    records: list[bytes] = field(default_factory=list)
    rows: bytearray = field(default_factory=bytearray)
    keys: bytearray = field(default_factory=bytearray)
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    fixes: dict[str, int] = field(default_factory=dict)
    class_counts: dict[str, int] = field(default_factory=dict)
    stats: Stats | None = None
    key_sum: int = 0

    def merge(self, other: Slice) -> None:
        """Adds the rows, rejects and sums of ``other``, but not its records."""
        self.rows += other.rows
        self.keys += other.keys
        self.rejects += other.rejects
        add_into(self.fixes, other.fixes)
        add_into(self.class_counts, other.class_counts)
        self.stats = add_stats(self.stats, other.stats)
        self.key_sum += other.key_sum


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """What an encoder needs besides the plan.

    ``threads``: 0 is ``default_threads``. ``encoders``: threads that encode a bucket's images,
    while ``threads`` read; 0 is one per core of this process. ``processes``: how many on this
    machine share its cores and the budgets of memory.
    """

    sources: Sequence[str]
    options: BuildOptions
    run: Run
    threads: int
    encoders: int = 0
    processes: int = 1


class SliceEncoder:
    """Makes slices for any number of parts at a time, with the threads of its settings.

    The threads end with ``close``, or when the run is stopped and nothing refers to this object.
    """

    def __init__(self, plan: Plan, settings: EncoderSettings) -> None:
        self.plan, self.settings = plan, settings
        options, sources, processes = settings.options, settings.sources, settings.processes
        self._stop = settings.run.stop
        self._sources: list[Source] = [open_source(url) for url in sources]
        self._rule = parse_splits(options.splits)
        self._classes = {  # index, and the features of class and label
            name: (index, encode_feature("class", index), encode_feature("label", name.encode()))
            for index, name in enumerate(plan.classes)
        }
        self._stats_below = min(1 << 64, (STATS_IMAGES << 64) // plan.candidates)
        self.threads = settings.threads or default_threads(sources)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")
        self._encoders: ThreadPoolExecutor | None = None
        if any(map(storage.is_remote, sources)):
            encoders = settings.encoders or max(cores() // processes, 1)
            self._encoders = ThreadPoolExecutor(min(self.threads, encoders), thread_name_prefix="encode-fetched")
        self._source_budget = Budget(SOURCE_BUDGET // processes)
        # One slice per reader and as many waiting ones fit into the budget: no reader waits.
        self._slice_bytes = min(_SLICE_BYTES, SOURCE_BUDGET // processes // (2 * self.threads))
        self._pixel_budget = Budget(PIXEL_BUDGET // processes)

    def close(self) -> None:
        """Ends the threads; drops the slices that no thread has begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._encoders is not None:
            self._encoders.shutdown(wait=True, cancel_futures=True)

    def encode(self, refs: Sequence[ImageRef]) -> Iterator[Slice]:
        """Yields the slices of ``refs`` in order. The threads get all of them at the beginning.

        When the run is stopped, slices end early and without an error. So the caller must check the
        run's stop flag after each slice.
        """
        task: Callable[[Sequence[ImageRef]], Slice | Future[Slice]]
        task = self.encode_slice if self._encoders is None else self._fetch_slice
        pieces = cut_slices(refs, self.threads, self._slice_bytes)
        slices: deque[Future[Slice | Future[Slice]]] = deque(self._pool.submit(task, piece) for piece in pieces)
        while slices:
            done = slices.popleft().result()
            yield done if isinstance(done, Slice) else done.result()

    def encode_slice(self, refs: Sequence[ImageRef]) -> Slice:
        """One slice, read and encoded by the calling thread."""
        out = Slice()
        with self._source_budget.hold(_bytes_read(refs)):
            for ref in refs:
                if self._stop.is_set():
                    break  # the part's thread sees the flag too and drops the part
                self._add(ref, self._fetch(ref), out)
        return out

    def try_out(self, ref: ImageRef) -> tuple[int, str | None]:
        """Encodes an image as a build does: (bytes of record, None) or (0, reason of reject)."""
        done = self.encode_slice([ref])
        return (len(done.records[0]), None) if done.records else (0, done.rejects[0][1])

    def _fetch_slice(self, refs: Sequence[ImageRef]) -> Future[Slice]:
        assert self._encoders is not None
        # The whole slice is reserved at once. Readers that each held half of their slices would
        # wait for each other for ever.
        size = _bytes_read(refs)
        self._source_budget.take(size)
        try:
            fetched = [(ref, self._fetch(ref)) for ref in refs if not self._stop.is_set()]
            return self._encoders.submit(self._encode_fetched, fetched, size)
        except BaseException:
            self._source_budget.give(size)
            raise

    def _encode_fetched(self, fetched: Sequence[tuple[ImageRef, bytes | RejectError]], size: int) -> Slice:
        out = Slice()
        try:
            for ref, data in fetched:
                if self._stop.is_set():
                    break
                self._add(ref, data, out)
            return out
        finally:
            self._source_budget.give(size)

    def _add(self, ref: ImageRef, data: bytes | RejectError, out: Slice) -> None:
        """Adds a record or a reject to ``out``."""
        try:
            if isinstance(data, RejectError):
                raise data
            self._encode_one(ref, data, out)
        except RejectError as error:
            out.rejects.append((shown_key(ref.key), error.reason.value, clip(error.detail)))
            out.key_sum += key_hash(ref.key)

    def _encode_one(self, ref: ImageRef, data: bytes, out: Slice) -> None:
        label = self._rule.class_of(ref.key)
        class_index, class_feature, label_feature = self._classes[label]
        sampled = hash64("stats", self.settings.options.seed, ref.key) < self._stats_below
        image = process_image(data, self.settings.options.image, with_stats=sampled, reserve=self._pixel_budget.hold)
        example = join_features(  # in the order of their names
            (
                class_feature,
                feature_head("image", len(image.data)),
                image.data,
                encode_feature("key", ref.key),
                label_feature,
                _size_feature(image.height, image.width),
            )
        )
        record = tfrecord.frame(example)
        out.records.append(record)
        out.key_sum += key_hash(ref.key)
        out.class_counts[label] = out.class_counts.get(label, 0) + 1
        fixes = 0
        for fix in image.fixes:
            out.fixes[fix] = out.fixes.get(fix, 0) + 1
            fixes |= FIX_BITS[fix]
        out.rows += pack_row(len(record), class_index, image.height, image.width, fixes, ref)
        out.keys += ref.key
        out.stats = add_stats(out.stats, image.stats)

    def _fetch(self, ref: ImageRef) -> bytes | RejectError:
        """An image's bytes, or why it is rejected."""
        try:
            ref.key.decode("utf-8")
        except UnicodeDecodeError:
            return RejectError(Reason.NAME, "the file name is not UTF-8; rename it")
        try:
            check_size(ref.stat.size)
            return self._sources[ref.root].read(ref.key, ref.stat)
        except RejectError as error:
            return error
        except ChangedError as error:
            return RejectError(Reason.CHANGED, str(error))
        except ChecksumError as error:
            return RejectError(Reason.CHECKSUM, str(error))


def _bytes_read(refs: Sequence[ImageRef]) -> int:
    return sum(ref.stat.size for ref in refs if ref.stat.size <= MAX_FILE_BYTES)  # larger ones are not read


@functools.lru_cache(maxsize=1024)
def _size_feature(height: int, width: int) -> bytes:
    return encode_feature("size", [height, width])


def shown_key(key: bytes) -> str:
    """A key as rejects files show it: exact if it is UTF-8, else with backslash escapes."""
    return key.decode("utf-8", "backslashreplace")


def cut_slices(refs: Sequence[ImageRef], threads: int, most_bytes: int) -> Iterator[list[ImageRef]]:
    """The references of each slice: few enough for a part to spread over the threads.

    ``most_bytes``: about the most bytes of sources per slice.
    """
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
