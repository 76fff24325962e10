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
from shardfeed.arrays.decoded_cache import DecodedImages
from shardfeed.arrays.decoder import Examples, RecordDecoder
from shardfeed.arrays.forms import Batch, BatchForm
from shardfeed.arrays.user_map import Empty, MappedRows
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
    images = decoder.images(sum(len(numbers) for _, numbers in batch), empty)
    tasks, row = [], 0
    for examples, numbers in batch:
        for at in range(0, len(numbers), most):
            part = numbers[at : at + most]
            rows = range(row, row + len(part))
            tasks.append(pool.submit(decoder.pixels, examples, part, images, rows, positions[rows.start : rows.stop]))
            row = rows.stop
    columns = {
        name: np.concatenate([examples.columns[name][numbers] for examples, numbers in batch])
        for name in batch[0][0].columns
    }

    def finished() -> Batch:
        for task in tasks:
            task.result()
        made = images.array() if isinstance(images, MappedRows) else images
        return form({"image": made} | columns, positions[0], lambda: batch[0][0].where(batch[0][1][0]))

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
    windows: Iterator[ReadWindow],
    decoder: RecordDecoder,
    kept: DecodedImages | None,
    readers: int,
    reading: Executor,
    finding: Executor,
) -> Iterator[Picked]:
    """Examples of ``windows`` and their order.

    The next window is read while this one is used up; more of them if they have fewer blocks than
    there are ``readers``.
    """
    ahead: deque[tuple[ReadWindow, Future[Examples]]] = deque()
    for window in windows:
        if kept is not None and kept.has(window):
            ahead.append((window, finding.submit(kept.examples, window)))
        else:
            blocks = [reading.submit(decoder.reader.read, run.block) for run in window.runs]
            ahead.append((window, finding.submit(_found, decoder, kept, window, blocks)))
        while len(ahead) > _WINDOWS_AHEAD and sum(len(one.runs) for one, _ in ahead) > readers:
            window, examples = ahead.popleft()
            yield examples.result(), window.order
    while ahead:
        window, examples = ahead.popleft()
        yield examples.result(), window.order


def _found(
    decoder: RecordDecoder, kept: DecodedImages | None, window: ReadWindow, blocks: Sequence[Future[LoadedBlock]]
) -> Examples:
    pairs = zip(window.runs, blocks, strict=True)
    examples = decoder.examples([block.result().part(run.skip, run.take) for run, block in pairs])
    return examples if kept is None else kept.noted(window, examples)


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
