"""Windows to decoded batches: one pool of threads reads ahead, another decodes.

Reading and decoding have separate pools, because a reader waits for the store and a decoder for a
core. In one pool, reads of the next window would queue behind the decoding of this one, and the
stream would stop at the end of every window.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor

import numpy as np

from shardfeed.arrays.blocks import LoadedBlock
from shardfeed.arrays.decoded_cache import DecodedImages
from shardfeed.arrays.decoder import Examples, Images, RecordDecoder
from shardfeed.arrays.forms import Batch, BatchForm
from shardfeed.arrays.read_ahead import Picked, picked_batches, reading_threads, thread_pool
from shardfeed.arrays.user_map import Empty, MappedRows
from shardfeed.runtime import DECODED_AHEAD
from shardfeed.sampling.record_order import ReadWindow

RECORDS_PER_TASK = 64  # 16 ms of decoding for 0.1 ms of handing it over
_TASKS_AHEAD = 2  # per thread
_BATCHES_AHEAD = 2


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
        reading_threads(readers) as reading,
        thread_pool(threads, "shardfeed-map") as mapping,  # waits for the decoders
        thread_pool(threads, "shardfeed-decode") as decoding,
    ):
        most = records_per_task(decoder.shape, threads)
        ahead = max(_BATCHES_AHEAD, -(-_TASKS_AHEAD * threads * most // batch_size))
        pending: deque[Callable[[], Batch]] = deque()
        for picked in picked_batches(
            windows, reading, read=decoder.reader.read, find=_finder(decoder, kept), batch_size=batch_size,
            is_known=(lambda window: False) if kept is None else kept.has,
        ):  # fmt: skip
            finished = _started(picked, decoder, form, decoding, most, positions, empty)
            pending.append(finished if form.map is None else mapping.submit(finished).result)
            positions = positions[batch_size:]
            if len(pending) > ahead:
                yield pending.popleft()()
        while pending:
            yield pending.popleft()()


def _finder(decoder: RecordDecoder, kept: DecodedImages | None) -> Callable[[ReadWindow, list[LoadedBlock]], Examples]:
    def find(window: ReadWindow, blocks: list[LoadedBlock]) -> Examples:
        if kept is None:
            return decoder.examples(blocks)
        return kept.noted(window, decoder.examples(blocks)) if blocks else kept.examples(window)

    return find


def records_per_task(shape: tuple[int, int, int], threads: int) -> int:
    """``RECORDS_PER_TASK``, or fewer to hold at most ``DECODED_AHEAD`` bytes of pixels ahead."""
    return max(1, min(RECORDS_PER_TASK, DECODED_AHEAD // (_TASKS_AHEAD * threads * math.prod(shape))))


def _started(
    batch: list[Picked[Examples]],
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
        name: np.empty((size, *values.shape[1:]), values.dtype) for name, values in batch[0].found.columns.items()
    }
    for one in batch:
        for name, values in columns.items():
            values[one.places] = one.found.columns[name][one.numbers]
    first = min(batch, key=lambda one: one.rows.start)

    def finished() -> Batch:
        for task in tasks:
            task.result()
        made = images.array() if isinstance(images, MappedRows) else images
        return form({"image": made} | columns, positions[0], lambda: first.found.where(first.numbers[0]))

    return finished


def _decode(decoder: RecordDecoder, task: list[Picked[Examples]], images: Images, positions: range) -> None:
    for one in task:
        decoder.pixels(one.found, one.numbers, images, one.rows, positions[one.places])


def _tasks(batch: list[Picked[Examples]], most: int) -> Iterator[list[Picked[Examples]]]:
    """``batch`` in parts of ``most`` records; the last may be smaller."""
    task: list[Picked[Examples]] = []
    missing = most
    for one in batch:
        at = 0
        while at < len(one.numbers):
            task.append(one.part(slice(at, at + missing)))
            taken = len(task[-1].numbers)
            at, missing = at + taken, missing - taken
            if not missing:
                yield task
                task, missing = [], most
    if task:
        yield task
