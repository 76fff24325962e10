"""Windows to decoded batches: one pool of threads reads ahead, another decodes.

Reading and decoding have separate pools, because a reader waits for the store and a decoder for a
core. In one pool, reads of the next window would queue behind the decoding of this one, and the
stream would stop at the end of every window. One more thread finds the images of a window when its
blocks have been read, so the caller never does that work.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from shardfeed.arrays.blocks import LoadedBlock
from shardfeed.arrays.decoded_cache import DecodedImages
from shardfeed.arrays.decoder import Examples, Images, RecordDecoder
from shardfeed.arrays.forms import Batch, BatchForm
from shardfeed.arrays.user_map import Empty, MappedRows
from shardfeed.runtime import DECODED_AHEAD
from shardfeed.sampling.record_order import ReadWindow, RecordRun

RECORDS_PER_TASK = 64  # 16 ms of decoding for 0.1 ms of handing it over
_TASKS_AHEAD = 2  # per thread
_BATCHES_AHEAD = 2


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


def batches(
    windows: Iterator[ReadWindow],
    positions: range,
    *,
    decoder: RecordDecoder,
    form: BatchForm,
    kept: DecodedImages | None,
    batch_size: int,
    readers: int,
    threads: int,
    empty: Empty,
) -> Generator[Batch, None, None]:
    """Batches of ``batch_size`` records in the order of ``windows``; the last may be smaller.

    ``positions`` are those of the records in the whole stream, of all hosts. ``kept``: decoded
    images, which are not read again. ``empty`` makes the arrays of images.
    """
    with (
        _pool(1, "shardfeed-find") as finding,  # ends after the readers: it waits for them
        _pool(readers, "shardfeed-read") as reading,
        _pool(threads, "shardfeed-map") as mapping,  # waits for the decoders
        _pool(threads, "shardfeed-decode") as decoding,
    ):
        most = records_per_task(decoder.shape, threads)
        ahead = max(_BATCHES_AHEAD, -(-_TASKS_AHEAD * threads * most // batch_size))
        pending: deque[Callable[[], Batch]] = deque()
        read = _read(windows, decoder, kept, readers, reading, finding)
        for picked in _batched(read, batch_size):
            finished = _started(picked, decoder, form, decoding, most, positions, empty)
            pending.append(finished if form.map is None else mapping.submit(finished).result)
            positions = positions[batch_size:]
            if len(pending) > ahead:
                yield pending.popleft()()
        while pending:
            yield pending.popleft()()


def records_per_task(shape: tuple[int, int, int], threads: int) -> int:
    """``RECORDS_PER_TASK``, or fewer to hold at most ``DECODED_AHEAD`` bytes of pixels ahead."""
    return max(1, min(RECORDS_PER_TASK, DECODED_AHEAD // (_TASKS_AHEAD * threads * math.prod(shape))))


def _started(
    batch: list[Picked],
    decoder: RecordDecoder,
    form: BatchForm,
    pool: Executor,
    most: int,
    positions: range,
    empty: Empty,
) -> Callable[[], Batch]:
    """Begins to decode a batch; what it returns waits for the end and gives the batch."""
    size = sum(len(one.numbers) for one in batch)
    images = decoder.images(size, empty)
    tasks = [pool.submit(_decode, decoder, task, images, positions) for task in _tasks(batch, most)]
    columns = {
        name: np.empty((size, *values.shape[1:]), values.dtype) for name, values in batch[0].examples.columns.items()
    }
    for examples, numbers, rows in batch:
        for name, values in columns.items():
            values[_slice(rows)] = examples.columns[name][numbers]
    first = min(batch, key=lambda one: one.rows.start)

    def finished() -> Batch:
        for task in tasks:
            task.result()
        made = images.array() if isinstance(images, MappedRows) else images
        return form({"image": made} | columns, positions[0], lambda: first.examples.where(first.numbers[0]))

    return finished


def _decode(decoder: RecordDecoder, task: list[Picked], images: Images, positions: range) -> None:
    for examples, numbers, rows in task:
        decoder.pixels(examples, numbers, images, rows, positions[_slice(rows)])


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
    windows: Iterator[ReadWindow],
    decoder: RecordDecoder,
    kept: DecodedImages | None,
    readers: int,
    reading: Executor,
    finding: Executor,
) -> Iterator[_Ahead]:
    """``windows`` that are being read, in their order.

    Per stream, the next window is read while one is used up; more of them if they have fewer
    blocks than there are ``readers``. A block that another window still holds is not read again.
    """
    held: WeakValueDictionary[tuple[str, int], Future[LoadedBlock]] = WeakValueDictionary()

    def block_of(run: RecordRun) -> Future[LoadedBlock]:
        place = run.block.shard.file, run.block.offset
        found = held.get(place)
        if found is None:
            found = held[place] = reading.submit(decoder.reader.read, run.block)
        return found

    pending: deque[_Ahead] = deque()
    for window in windows:
        if kept is not None and kept.has(window):
            pending.append(_Ahead(window, [], finding.submit(kept.examples, window)))
        else:
            blocks = list(map(block_of, window.runs))
            pending.append(_Ahead(window, blocks, finding.submit(_found, decoder, kept, window, blocks)))
        while len(pending) >= window.rows.step and sum(len(one.window.runs) for one in pending) >= readers:
            yield pending.popleft()
    yield from pending


def _found(
    decoder: RecordDecoder, kept: DecodedImages | None, window: ReadWindow, blocks: Sequence[Future[LoadedBlock]]
) -> Examples:
    pairs = zip(window.runs, blocks, strict=True)
    examples = decoder.examples([block.result().part(run.skip, run.take) for run, block in pairs])
    return examples if kept is None else kept.noted(window, examples)


def _slice(rows: range) -> slice:
    return slice(rows.start, rows.stop, rows.step)


def _moved(rows: range, by: int) -> range:
    return range(rows.start + by, rows.stop + by, rows.step)


@contextmanager
def _pool(threads: int, name: str, ending: Callable[[], bool] = sys.is_finalizing) -> Iterator[Executor]:
    """Threads that end with the stream; those of a stream that is left open end with the program.

    ``ending`` is no name of this module, because modules lose their names at the program's end.
    """
    pool = ThreadPoolExecutor(threads, name)
    wait = True
    try:
        yield pool
    # a store that does not answer would keep its user waiting for minutes
    except KeyboardInterrupt:
        wait = False
        raise
    finally:  # also when the caller leaves the stream in the middle
        if not ending():
            pool.shutdown(wait=wait, cancel_futures=True)
