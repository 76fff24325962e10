"""Windows to decoded batches: one pool of threads reads ahead, another decodes.

Reading and decoding have separate pools, because a reader waits for the store and a decoder for a
core. In one pool, reads of the next window would queue behind the decoding of this one, and the
stream would stop at the end of every window. One more thread finds the images of a window when its
blocks have been read, so the caller never does that work.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.blocks import BlockReader, LoadedBlock, LoadedRecord
from shardfeed.arrays.parsing import images_and_classes
from shardfeed.decoding import Bytes, ImageDecoder, Pixels, RecordProblem
from shardfeed.runtime import DECODED_AHEAD
from shardfeed.sampling.record_order import ReadWindow, Run

RECORDS_PER_TASK = 64  # 16 ms of decoding for 0.1 ms of handing it over
_TASKS_AHEAD = 2  # per thread
_BATCHES_AHEAD = 2

Labels = NDArray[np.int32]
Decoded = tuple[Pixels, Labels]


class Examples(NamedTuple):
    """Images and class indices of a window's records, in the order of its runs."""

    images: list[Bytes]
    labels: Labels
    blocks: list[LoadedBlock]

    def record(self, number: int) -> LoadedRecord:
        """Record number ``number``."""
        for block in self.blocks:
            if number < len(block):
                return block[number]
            number -= len(block)
        raise IndexError(number)


class Picked(NamedTuple):
    """Numbers of ``examples`` that go into a batch, and the ``rows`` they go to."""

    examples: Examples
    numbers: Sequence[int]
    rows: range


class _Ahead(NamedTuple):
    """A window whose blocks are being read."""

    window: ReadWindow
    blocks: list[Future[LoadedBlock]]
    examples: Future[Examples]


@dataclass(frozen=True)
class RecordDecoder:
    """Finds image and class (one of ``classes``) in records, and decodes images into batches."""

    reader: BlockReader
    decode: ImageDecoder
    shape: tuple[int, int, int]
    classes: int

    def examples(self, blocks: list[LoadedBlock]) -> Examples:
        """Image and class of each record.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        images, classes = images_and_classes(blocks, self.reader)
        found = Examples(images, classes.astype(np.int32), blocks)
        for number in np.flatnonzero((classes < 0) | (classes >= self.classes))[:1].tolist():
            problem = RecordProblem("class", f"0 to {self.classes - 1}", str(classes[number]))
            raise self.reader.damage(found.record(number), problem)
        return found

    def pixels(self, examples: Examples, numbers: Sequence[int], images: Pixels) -> None:
        """Decode the ``examples`` of ``numbers`` into the rows of ``images``.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        for row, number in enumerate(numbers):
            try:
                self.decode(examples.images[number], self.shape, images[row])
            except RecordProblem as problem:
                raise self.reader.damage(examples.record(number), problem) from None


def batches(
    windows: Iterator[ReadWindow], decoder: RecordDecoder, batch_size: int, *, readers: int, threads: int
) -> Generator[Decoded, None, None]:
    """Batches of ``batch_size`` records in the order of ``windows``; the last may be smaller."""
    with (
        _pool(1, "shardfeed-find") as finding,  # ends after the readers: it waits for them
        _pool(readers, "shardfeed-read") as reading,
        _pool(threads, "shardfeed-decode") as decoding,
    ):
        most = records_per_task(decoder.shape, threads)
        ahead = max(_BATCHES_AHEAD, -(-_TASKS_AHEAD * threads * most // batch_size))
        pending: deque[Callable[[], Decoded]] = deque()
        for batch in _batched(_read(windows, decoder, readers, reading, finding), batch_size):
            pending.append(_started(batch, decoder, decoding, most))
            if len(pending) > ahead:
                yield pending.popleft()()
        while pending:
            yield pending.popleft()()


def records_per_task(shape: tuple[int, int, int], threads: int) -> int:
    """``RECORDS_PER_TASK``, or fewer to hold at most ``DECODED_AHEAD`` bytes of pixels ahead."""
    return max(1, min(RECORDS_PER_TASK, DECODED_AHEAD // (_TASKS_AHEAD * threads * math.prod(shape))))


def _started(batch: list[Picked], decoder: RecordDecoder, pool: Executor, most: int) -> Callable[[], Decoded]:
    """Begins to decode a batch; what it returns waits for the end and gives the batch."""
    size = sum(len(numbers) for _, numbers, _ in batch)
    images, labels = np.empty((size, *decoder.shape), np.uint8), np.empty(size, np.int32)
    for examples, numbers, rows in batch:
        labels[_slice(rows)] = examples.labels[numbers]
    tasks = [pool.submit(_decode, decoder, task, images) for task in _tasks(batch, most)]

    def finished() -> Decoded:
        for task in tasks:
            task.result()
        return images, labels

    return finished


def _decode(decoder: RecordDecoder, task: list[Picked], images: Pixels) -> None:
    for examples, numbers, rows in task:
        decoder.pixels(examples, numbers, images[_slice(rows)])


def _tasks(batch: list[Picked], most: int) -> Iterator[list[Picked]]:
    """``batch`` in parts of ``most`` records; the last may be smaller."""
    task: list[Picked] = []
    missing = most
    for examples, numbers, rows in batch:
        at = 0
        while at < len(numbers):
            part = slice(at, at + missing)
            task.append(Picked(examples, numbers[part], rows[part]))
            taken = len(task[-1].numbers)
            at, missing = at + taken, missing - taken
            if not missing:
                yield task
                task, missing = [], most
    if task:
        yield task


def _batched(windows: Iterator[_Ahead], batch_size: int) -> Iterator[list[Picked]]:
    """What makes a batch together; the last may be smaller."""
    open_windows: list[tuple[_Ahead, int]] = []  # and how many of their records are used up
    following = next(windows, None)
    start = 0
    while open_windows or following is not None:
        stop = start + batch_size
        while following is not None and following.window.rows.start < stop:
            open_windows.append((following, 0))
            following = next(windows, None)
        batch, left = [], []
        for ahead, used in open_windows:
            rows = ahead.window.rows[used:]
            taken = len(range(rows.start, min(stop, rows.stop), rows.step))
            numbers = ahead.window.order[used : used + taken]
            if taken:
                batch.append(Picked(ahead.examples.result(), numbers, _moved(rows[:taken], -start)))
            if taken < len(rows):
                left.append((ahead, used + taken))
        yield batch
        open_windows, start = left, stop


def _read(
    windows: Iterator[ReadWindow], decoder: RecordDecoder, readers: int, reading: Executor, finding: Executor
) -> Iterator[_Ahead]:
    """``windows`` that are being read, in their order.

    Per stream, the next window is read while one is used up; more of them if they have fewer
    blocks than there are ``readers``. A block that another window still holds is not read again.
    """
    held: WeakValueDictionary[tuple[str, int], Future[LoadedBlock]] = WeakValueDictionary()

    def block_of(run: Run) -> Future[LoadedBlock]:
        place = run.block.shard.file, run.block.offset
        found = held.get(place)
        if found is None:
            found = held[place] = reading.submit(decoder.reader.read, run.block)
        return found

    pending: deque[_Ahead] = deque()
    for window in windows:
        blocks = list(map(block_of, window.runs))
        pending.append(_Ahead(window, blocks, finding.submit(_found, decoder, window, blocks)))
        while len(pending) >= window.rows.step and sum(len(one.blocks) for one in pending) >= readers:
            yield pending.popleft()
    yield from pending


def _found(decoder: RecordDecoder, window: ReadWindow, blocks: Sequence[Future[LoadedBlock]]) -> Examples:
    pairs = zip(window.runs, blocks, strict=True)
    return decoder.examples([block.result().part(run.skip, run.take) for run, block in pairs])


def _slice(rows: range) -> slice:
    return slice(rows.start, rows.stop, rows.step)


def _moved(rows: range, by: int) -> range:
    return range(rows.start + by, rows.stop + by, rows.step)


@contextmanager
def _pool(threads: int, name: str) -> Iterator[Executor]:
    pool = ThreadPoolExecutor(threads, name)
    wait = True
    try:
        yield pool
    # a store that does not answer would keep its user waiting for minutes
    except KeyboardInterrupt:
        wait = False
        raise
    finally:  # also when the caller leaves the stream in the middle
        pool.shutdown(wait=wait, cancel_futures=True)
