"""Windows that are read ahead by threads, and which of their records make a batch.

One more thread finds the records of a window when its blocks have been read, so the caller never
does that work.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from shardfeed.arrays.blocks import LoadedBlock
from shardfeed.sampling.blocks import Block
from shardfeed.sampling.record_order import ReadWindow, RecordRun

REMOTE_READERS = 16  # requests in flight to a store: a block is a megabyte, and a request waits about 50 ms

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Picked(Generic[Found]):
    """The records ``found`` in a window that go into a batch, and the ``rows`` they go to."""

    found: Found
    numbers: Sequence[int]
    rows: range

    def part(self, at: slice) -> Picked[Found]:
        """Those records of it alone."""
        return Picked(self.found, self.numbers[at], self.rows[at])

    @property
    def places(self) -> slice:
        """``rows`` as an index of an array."""
        return slice(self.rows.start, self.rows.stop, self.rows.step)


@dataclass(frozen=True, slots=True)
class _Ahead(Generic[Found]):
    """A window that is being read."""

    window: ReadWindow
    blocks: list[Future[LoadedBlock]]
    found: Future[Found]


def picked_batches(
    windows: Iterator[ReadWindow],
    threads: ReadingThreads,
    *,
    read: Callable[[Block], LoadedBlock],
    find: Callable[[ReadWindow, list[LoadedBlock]], Found],
    batch_size: int,
    is_known: Callable[[ReadWindow], bool] = lambda window: False,
) -> Iterator[list[Picked[Found]]]:
    """What makes each batch of ``batch_size`` records, in the order of ``windows``.

    The last batch may be smaller.

    Args:
        windows: what is to be read.
        threads: those that read.
        read: reads a block.
        find: gets a window and its parts of blocks; records are picked from its result.
        batch_size: records per batch.
        is_known: tells windows of which no block is read.
    """
    held: WeakValueDictionary[tuple[str, int], Future[LoadedBlock]] = WeakValueDictionary()

    def block_of(run: RecordRun) -> Future[LoadedBlock]:
        place = run.block.shard.file, run.block.offset
        block = held.get(place)
        if block is None:  # no other window holds it
            block = held[place] = threads.reading.submit(read, run.block)
        return block

    def ahead(window: ReadWindow) -> _Ahead[Found]:
        blocks = [] if is_known(window) else list(map(block_of, window.runs))
        return _Ahead(window, blocks, threads.finding.submit(_found, find, window, blocks))

    return _batched(_read(windows, ahead, threads.readers), batch_size)


def _found(
    find: Callable[[ReadWindow, list[LoadedBlock]], Found], window: ReadWindow, blocks: list[Future[LoadedBlock]]
) -> Found:
    pairs = zip(window.runs, blocks, strict=False)  # of a known window there are no blocks
    return find(window, [block.result().part(run.skip, run.take) for run, block in pairs])


def _read(
    windows: Iterator[ReadWindow], ahead: Callable[[ReadWindow], _Ahead[Found]], readers: int
) -> Iterator[_Ahead[Found]]:
    """``windows`` that are being read, in their order.

    Per stream, the next window is read while one is used up; more of them if they have fewer
    blocks than there are ``readers``.
    """
    pending: deque[_Ahead[Found]] = deque()
    for window in windows:
        pending.append(ahead(window))
        while len(pending) >= window.rows.step and sum(len(one.window.runs) for one in pending) >= readers:
            yield pending.popleft()
    yield from pending


def _batched(windows: Iterator[_Ahead[Found]], batch_size: int) -> Iterator[list[Picked[Found]]]:
    open_windows: list[tuple[_Ahead[Found], int]] = []  # and how many of their records are used up
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
            if taken:
                numbers, moved = ahead.window.order[used : used + taken], rows[:taken]
                moved = range(moved.start - start, moved.stop - start, moved.step)
                batch.append(Picked(ahead.found.result(), numbers, moved))
            if taken < len(rows):
                left.append((ahead, used + taken))
        yield batch
        open_windows, start = left, stop


class ReadingThreads(NamedTuple):
    """``readers`` threads that read blocks, and the one that finds records in them."""

    readers: int
    reading: Executor
    finding: Executor


@contextmanager
def reading_threads(readers: int, wait: bool = True) -> Iterator[ReadingThreads]:
    """Threads for a stream. The one that finds ends after the readers: it waits for them.

    Without ``wait``, requests under way are left to their threads at the end. The garbage collector
    may end such a stream in one of these threads, which cannot wait for itself.
    """
    with thread_pool(1, "shardfeed-find", wait) as finding, thread_pool(readers, "shardfeed-read", wait) as reading:
        yield ReadingThreads(readers, reading, finding)


@contextmanager
def thread_pool(
    threads: int, name: str, wait: bool = True, ending: Callable[[], bool] = sys.is_finalizing
) -> Iterator[Executor]:
    """Threads that end with the stream; those of a stream that is left open end with the program.

    ``ending`` is no name of this module, because modules lose their names at the program's end.
    """
    pool = ThreadPoolExecutor(threads, name)
    try:
        yield pool
    # a store that does not answer would keep its user waiting for minutes
    except KeyboardInterrupt:
        wait = False
        raise
    finally:  # also when the caller leaves the stream in the middle
        if not ending():
            pool.shutdown(wait=wait, cancel_futures=True)
