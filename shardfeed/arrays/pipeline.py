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

import numpy as np

from shardfeed.arrays.blocks import LoadedBlock
from shardfeed.arrays.decoder import Columns, Examples, RecordDecoder
from shardfeed.runtime import DECODED_AHEAD
from shardfeed.sampling.record_order import ReadWindow

RECORDS_PER_TASK = 64  # 16 ms of decoding for 0.1 ms of handing it over
_TASKS_AHEAD = 2  # per thread
_BATCHES_AHEAD = 2
_WINDOWS_AHEAD = 1

Picked = tuple[Examples, Sequence[int]]
"""Numbers of examples that go into a batch one after the other."""


def batches(
    windows: Iterator[ReadWindow],
    positions: range,
    *,
    decoder: RecordDecoder,
    batch_size: int,
    readers: int,
    threads: int,
) -> Generator[Columns, None, None]:
    """Batches of ``batch_size`` records in the order of ``windows``; the last may be smaller.

    ``positions`` are those of the records in the whole stream, of all hosts.
    """
    with (
        _pool(1, "shardfeed-find") as finding,  # ends after the readers: it waits for them
        _pool(readers, "shardfeed-read") as reading,
        _pool(threads, "shardfeed-decode") as decoding,
    ):
        most = records_per_task(decoder.shape, threads)
        ahead = max(_BATCHES_AHEAD, -(-_TASKS_AHEAD * threads * most // batch_size))
        pending: deque[Callable[[], Columns]] = deque()
        for picked in _batched(_read(windows, decoder, readers, reading, finding), batch_size):
            pending.append(_started(picked, decoder, decoding, most, positions))
            positions = positions[batch_size:]
            if len(pending) > ahead:
                yield pending.popleft()()
        while pending:
            yield pending.popleft()()


def records_per_task(shape: tuple[int, int, int], threads: int) -> int:
    """``RECORDS_PER_TASK``, or fewer to hold at most ``DECODED_AHEAD`` bytes of pixels ahead."""
    return max(1, min(RECORDS_PER_TASK, DECODED_AHEAD // (_TASKS_AHEAD * threads * math.prod(shape))))


def _started(
    batch: list[Picked], decoder: RecordDecoder, pool: Executor, most: int, positions: range
) -> Callable[[], Columns]:
    """Begins to decode a batch; what it returns waits for the end and gives the batch."""
    images = np.empty((sum(len(numbers) for _, numbers in batch), *decoder.shape), np.uint8)
    columns = {"image": images} | {
        name: np.concatenate([examples.columns[name][numbers] for examples, numbers in batch])
        for name in batch[0][0].columns
    }
    tasks, row = [], 0
    for examples, numbers in batch:
        for at in range(0, len(numbers), most):
            part = numbers[at : at + most]
            rows = slice(row, row + len(part))
            tasks.append(pool.submit(decoder.pixels, examples, part, images[rows], positions[rows]))
            row += len(part)

    def finished() -> Columns:
        for task in tasks:
            task.result()
        return columns

    return finished


def _batched(windows: Iterator[Picked], batch_size: int) -> Iterator[list[Picked]]:
    """What makes a batch together; the last may be smaller."""
    batch: list[Picked] = []
    missing = batch_size
    for examples, order in windows:
        at = 0
        while at < len(order):
            numbers = order[at : at + missing]
            batch.append((examples, numbers))
            at, missing = at + len(numbers), missing - len(numbers)
            if not missing:
                yield batch
                batch, missing = [], batch_size
    if batch:
        yield batch


def _read(
    windows: Iterator[ReadWindow], decoder: RecordDecoder, readers: int, reading: Executor, finding: Executor
) -> Iterator[Picked]:
    """Examples of ``windows`` and their order.

    The next window is read while this one is used up; more of them if they have fewer blocks than
    there are ``readers``.
    """
    ahead: deque[tuple[ReadWindow, Future[Examples]]] = deque()
    for window in windows:
        blocks = [reading.submit(decoder.reader.read, run.block) for run in window.runs]
        ahead.append((window, finding.submit(_found, decoder, window, blocks)))
        while len(ahead) > _WINDOWS_AHEAD and sum(len(one.runs) for one, _ in ahead) > readers:
            window, examples = ahead.popleft()
            yield examples.result(), window.order
    while ahead:
        window, examples = ahead.popleft()
        yield examples.result(), window.order


def _found(decoder: RecordDecoder, window: ReadWindow, blocks: Sequence[Future[LoadedBlock]]) -> Examples:
    pairs = zip(window.runs, blocks, strict=True)
    return decoder.examples([block.result().part(run.skip, run.take) for run, block in pairs])


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
