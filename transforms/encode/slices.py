"""Slices of a part, a few images each: references become framed records or rejects, in threads.

Reading, decoding, resizing and encoding all release the interpreter's lock. If the images lie on a
disk, a thread encodes what it reads, and one thread per process is the part's own. If they lie in a
bucket, one pool of threads reads, as many as hide the bucket's answers, and another pool encodes,
one thread per core: more would drive each other's pixels out of the processor's caches. What cannot
be an image becomes a reject. A fault of the store is raised, because it is not the image's.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfeed import storage
from shardfeed.errors import clip
from shardfeed.format import tfrecord
from shardfeed.format.example import encode_feature, feature_head, join_features
from shardfeed.format.hashing import key_hash
from shardfeed.runtime import cores
from shardfeed.transforms.elements import ImageRef, Plan, add_into
from shardfeed.transforms.encode.budget import PIXEL_BUDGET, SOURCE_BUDGET, MemoryBudget
from shardfeed.transforms.encode.fingerprints import SliceFingerprints, slice_fingerprints
from shardfeed.transforms.encode.label_features import LabelEncoder
from shardfeed.transforms.encode.settings import Codec, EncoderSettings
from shardfeed.transforms.encode.threads import default_threads
from shardfeed.transforms.images import process
from shardfeed.transforms.images.limits import check_size
from shardfeed.transforms.images.pixels.stats import Stats, add_stats
from shardfeed.transforms.images.process import EncodedImage, Reserve
from shardfeed.transforms.images.rejects import Reason, RejectError
from shardfeed.transforms.inputs.labels import labeller
from shardfeed.transforms.metadata.row import unpack_table_row
from shardfeed.transforms.output.part_rows import FIX_BITS, pack_extras, pack_row
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.sources.base import ChangedError, ChecksumError, Source

if TYPE_CHECKING:
    from shardfeed.transforms.encode.previous_records import PreviousRecords

STATS_IMAGES = 1_000  # images sampled for mean and std: a standard error below 1.5 levels of 255 for photos
# Least and most images per slice: at 6 the pool costs 4 % more CPU than at 24, but a part must
# spread over the threads. One thread has nothing to spread: most parts are one slice, whose
# fingerprints cost a third of those of four slices.
_SLICE_IMAGES = (4, 16)
_SLICE_OF_ONE_THREAD = 64
_SLICE_BYTES = 8 << 20  # about the most bytes of sources per slice
_NAMES = ("class", "image", "image", "key", "label", "size")  # of the pieces of a record's features


@dataclass(frozen=True, slots=True)
class Reused:
    """A finished image of an earlier dataset; ``source``: its file, if images are fingerprinted."""

    image: EncodedImage
    source: bytes = b""


Fetched = bytes | Reused | RejectError


@dataclass(slots=True)
class Slice:
    """What became of a slice: framed records or rejects, in the order of its references.

    ``rows``, ``keys`` and ``extras``: of the records, as ``PartRows`` has them.
    ``key_sum`` grows with each record or reject that is added, not with what was asked for: it
    proves that nothing is lost. ``reused``: records whose image an earlier dataset held.
    """

    records: list[bytes] = field(default_factory=list)
    rows: bytearray = field(default_factory=bytearray)
    keys: bytearray = field(default_factory=bytearray)
    extras: bytearray = field(default_factory=bytearray)
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    fixes: dict[str, int] = field(default_factory=dict)
    class_counts: dict[str, int] = field(default_factory=dict)
    stats: Stats | None = None
    key_sum: int = 0
    reused: int = 0

    def merge(self, other: Slice) -> None:
        """Adds the rows, rejects and sums of ``other``, but not its records."""
        self.rows += other.rows
        self.keys += other.keys
        self.extras += other.extras
        self.rejects += other.rejects
        add_into(self.fixes, other.fixes)
        add_into(self.class_counts, other.class_counts)
        self.stats = add_stats(self.stats, other.stats)
        self.key_sum += other.key_sum
        self.reused += other.reused


class SliceEncoder:
    """Makes slices for any number of parts at a time, with the threads of its settings.

    The threads end with ``close``, or when the run is stopped and nothing refers to this object.
    ``codec``: makes the images; None is ``images/process.py``.
    """

    def __init__(self, plan: Plan, settings: EncoderSettings, codec: Codec | None = None) -> None:
        self.plan, self.settings = plan, settings
        options, sources, processes = settings.options, settings.sources, settings.processes
        self._stop, self._codec = settings.run.stop, codec or process
        self._previous: PreviousRecords | None = None
        if settings.previous:  # few builds need what it imports
            from shardfeed.transforms.encode.previous_records import PreviousRecords

            self._previous = PreviousRecords(settings.previous)
        self._sources: list[Source] = [open_source(url) for url in sources]
        self._limits = options.image.limits
        self._labels_of = labeller(options).labels_of
        self._encode_labels, self._several = LabelEncoder(plan).encode, plan.label_kind == "multi"
        self._stats_below = (STATS_IMAGES << 128) // plan.candidates
        self.threads = settings.threads or default_threads(sources)
        self._one_part = threading.Lock()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")
        self._encoders: ThreadPoolExecutor | None = None
        if any(map(storage.is_remote, sources)):
            encoders = settings.encoders or max(cores() // processes, 1)
            self._encoders = ThreadPoolExecutor(min(self.threads, encoders), thread_name_prefix="encode-fetched")
        self._source_budget = MemoryBudget(SOURCE_BUDGET // processes)
        # One slice per reader and as many waiting ones fit into the budget: no reader waits.
        self._slice_bytes = min(_SLICE_BYTES, SOURCE_BUDGET // processes // (2 * self.threads))
        # One thread never waits for itself, and asking takes 8 us per image.
        alone = self.threads == 1 and self._encoders is None
        self._reserve: Reserve = nullcontext if alone else MemoryBudget(PIXEL_BUDGET // processes).hold

    def close(self) -> None:
        """Ends the threads; drops the slices that no thread has begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._encoders is not None:
            self._encoders.shutdown(wait=True, cancel_futures=True)

    def encode(self, refs: Sequence[ImageRef]) -> Generator[Slice, None, None]:
        """Yields the slices of ``refs`` in order. Close it if it may not be read to its end.

        When the run is stopped, slices end early and without an error. So the caller must check the
        run's stop flag after each slice.
        """
        pieces = cut_slices(refs, self.threads, self._slice_bytes)
        if self.threads == 1 and self._encoders is None:  # handing slices over to a thread costs 4 %
            with self._one_part:
                yield from map(self.encode_slice, pieces)
            return
        task: Callable[[Sequence[ImageRef]], Slice | Future[Slice]]
        task = self.encode_slice if self._encoders is None else self._fetch_slice
        slices: deque[Future[Slice | Future[Slice]]] = deque(self._pool.submit(task, piece) for piece in pieces)
        while slices:
            done = slices.popleft().result()
            yield done if isinstance(done, Slice) else done.result()

    def encode_slice(self, refs: Sequence[ImageRef]) -> Slice:
        """One slice, read and encoded by the calling thread."""
        with self._source_budget.hold(self._bytes_read(refs)):
            return self._encoded((ref, self._fetch(ref)) for ref in refs)

    def _encoded(self, fetched: Iterable[tuple[ImageRef, Fetched]]) -> Slice:
        out = Slice()
        prints = slice_fingerprints(_SLICE_OF_ONE_THREAD) if self.settings.options.duplicates else None
        for ref, data in fetched:
            if self._stop.is_set():
                break  # the part's thread sees the flag too and drops the part
            self._add(ref, data, out, prints)
        if prints is not None:
            prints.complete(out.rows)
        return out

    def try_out(self, ref: ImageRef) -> tuple[int, str | None]:
        """Encodes an image as a build does: (bytes of record, None) or (0, reason of reject)."""
        done = self.encode_slice([ref])
        return (len(done.records[0]), None) if done.records else (0, done.rejects[0][1])

    def _fetch_slice(self, refs: Sequence[ImageRef]) -> Future[Slice]:
        assert self._encoders is not None
        # The whole slice is reserved at once. Readers that each held half of their slices would
        # wait for each other for ever.
        size = self._bytes_read(refs)
        self._source_budget.take(size)
        try:
            fetched = [(ref, self._fetch(ref)) for ref in refs if not self._stop.is_set()]
            return self._encoders.submit(self._encode_fetched, fetched, size)
        except BaseException:
            self._source_budget.give(size)
            raise

    def _encode_fetched(self, fetched: Sequence[tuple[ImageRef, Fetched]], size: int) -> Slice:
        try:
            return self._encoded(fetched)
        finally:
            self._source_budget.give(size)

    def _add(self, ref: ImageRef, data: Fetched, out: Slice, prints: SliceFingerprints | None) -> None:
        """Adds a record or a reject to ``out``."""
        hashed = key_hash(ref.key)
        try:
            if isinstance(data, RejectError):
                raise data
            self._encode_one(ref, hashed, data, out, prints)
        except RejectError as error:
            out.rejects.append((shown_key(ref.key), error.reason.value, clip(error.detail)))
            out.key_sum += hashed

    def _encode_one(
        self, ref: ImageRef, hashed: int, data: bytes | Reused, out: Slice, prints: SliceFingerprints | None
    ) -> None:
        labels = self._labels_of(ref.key, ref.row)
        class_index, class_feature, label_feature = self._encode_labels(labels)
        if isinstance(data, Reused):
            image = data.image
            if prints is not None:
                self._codec.take_samples(data.source, self.settings.options.image, prints.samples, self._reserve)
        else:
            image = self._codec.process_image(
                data,
                self.settings.options.image,
                with_stats=hashed < self._stats_below,
                reserve=self._reserve,
                samples=None if prints is None else prints.samples,
            )
        features: Sequence[bytes] = (  # in the order of their names
            class_feature,
            feature_head("image", len(image.data)),
            image.data,
            encode_feature("key", ref.key),
            label_feature,
            _size_feature(image.height, image.width),
        )
        columns = unpack_table_row(ref.row).features if self.settings.options.columns else ()
        if columns or self._several:
            out.extras += pack_extras([class_feature] * self._several + [feature for _, feature in columns])
        if columns:
            together = sorted([*zip(_NAMES, features, strict=True), *columns], key=_utf8_name)
            features = [feature for _, feature in together]
        record = tfrecord.frame(join_features(features))
        out.records.append(record)
        out.key_sum += hashed
        for label in labels:
            out.class_counts[label] = out.class_counts.get(label, 0) + 1
        fixes = 0
        for fix in image.fixes:
            out.fixes[fix] = out.fixes.get(fix, 0) + 1
            fixes |= FIX_BITS[fix]
        out.rows += pack_row(len(record), class_index, image.height, image.width, fixes, ref)
        out.keys += ref.key
        if prints is not None:
            prints.add(data.source if isinstance(data, Reused) else data)
        out.stats = add_stats(out.stats, image.stats)
        out.reused += isinstance(data, Reused)

    def _fetch(self, ref: ImageRef) -> Fetched:
        """An image's bytes, its finished image of an earlier dataset, or why it is rejected."""
        try:
            ref.key.decode("utf-8")
        except UnicodeDecodeError:
            return RejectError(Reason.NAME, "the file name is not UTF-8; rename it")
        try:
            check_size(ref.stat.size, self._limits)
            image = None
            if self._previous is not None and key_hash(ref.key) >= self._stats_below:  # else its pixels count
                image = self._previous.image(ref)
            if image is not None and not self.settings.options.duplicates:
                return Reused(image)
            source = self._sources[ref.root].read(ref.key, ref.stat)
            return source if image is None else Reused(image, source)
        except RejectError as error:
            return error
        except ChangedError as error:
            return RejectError(Reason.CHANGED, str(error))
        except ChecksumError as error:
            return RejectError(Reason.CHECKSUM, str(error))

    def _bytes_read(self, refs: Sequence[ImageRef]) -> int:
        most = self._limits.max_file_bytes  # larger ones are not read
        return sum(ref.stat.size for ref in refs if ref.stat.size <= most)


def _utf8_name(named: tuple[str, bytes]) -> bytes:
    return named[0].encode()


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
    images = _SLICE_OF_ONE_THREAD if threads == 1 else min(max(len(refs) // (2 * threads), least), most)
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
