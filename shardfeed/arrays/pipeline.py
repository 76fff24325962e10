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

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.blocks import BlockReader, LoadedBlock, LoadedRecord
from shardfeed.arrays.parsing import images_and_classes
from shardfeed.decoding import Bytes, ImageDecoder, Pixels, RecordProblem
from shardfeed.runtime import DECODED_AHEAD
from shardfeed.sampling.record_order import ReadWindow

RECORDS_PER_TASK = 64  # 16 ms of decoding for 0.1 ms of handing it over
_TASKS_AHEAD = 2  # per thread
_BATCHES_AHEAD = 2
_WINDOWS_AHEAD = 1

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


Picked = tuple[Examples, Sequence[int]]
"""Numbers of examples that go into a batch one after the other."""


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
        for picked in _batched(_read(windows, decoder, readers, reading, finding), batch_size):
            pending.append(_started(picked, decoder, decoding, most))
            if len(pending) > ahead:
                yield pending.popleft()()
        while pending:
            yield pending.popleft()()


def records_per_task(shape: tuple[int, int, int], threads: int) -> int:
    """``RECORDS_PER_TASK``, or fewer to hold at most ``DECODED_AHEAD`` bytes of pixels ahead."""
    return max(1, min(RECORDS_PER_TASK, DECODED_AHEAD // (_TASKS_AHEAD * threads * math.prod(shape))))


def _started(batch: list[Picked], decoder: RecordDecoder, pool: Executor, most: int) -> Callable[[], Decoded]:
    """Begins to decode a batch; what it returns waits for the end and gives the batch."""
    images = np.empty((sum(len(numbers) for _, numbers in batch), *decoder.shape), np.uint8)
    labels = np.concatenate([examples.labels[numbers] for examples, numbers in batch])
    tasks, row = [], 0
    for examples, numbers in batch:
        for at in range(0, len(numbers), most):
            part = numbers[at : at + most]
            tasks.append(pool.submit(decoder.pixels, examples, part, images[row : row + len(part)]))
            row += len(part)

    def finished() -> Decoded:
        for task in tasks:
            task.result()
        return images, labels

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
    ended = False
    while not ended or ahead:
        while not ended and (len(ahead) <= _WINDOWS_AHEAD or sum(len(one.runs) for one, _ in ahead) <= readers):
            window = next(windows, None)
            if window is None:
                ended = True
            else:
                blocks = [reading.submit(decoder.reader.read, run.block) for run in window.runs]
                ahead.append((window, finding.submit(_found, decoder, window, blocks)))
        if ahead:
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
