"""Windows to decoded batches: reads ahead in one pool of threads, decodes in another, hands batches out in order.

The one decision: two pools. A reader waits for the store and a decoder for a core; in one pool, reads of the next window would
queue behind the decoding of this one, and the stream would stop at every window's end. A thread beside them finds a window's
images when its blocks are there, so that who takes batches never does.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.blocks import BlockReader, Record, Records
from shardfeed.arrays.decode import Decode, ImageProblem
from shardfeed.arrays.parsing import Bytes, StrangeRecordError, images_and_classes
from shardfeed.runtime import DECODED_AHEAD
from shardfeed.sampling.record_order import Window

CHUNK = 64  # records a task: 16 ms of decoding for 0.1 ms of handing it over
_TASKS_AHEAD = 2  # for each thread
_BATCHES_AHEAD = 2
_WINDOWS_AHEAD = 1

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int32]


class Examples(NamedTuple):
    """Images and classes of a window's records, in the order of its pieces; ``records``: where they lie."""

    images: list[Bytes]
    labels: Labels
    records: list[Records]

    def record(self, number: int) -> Record:
        """The ``number``-th."""
        for records in self.records:
            if number < len(records):
                return records[number]
            number -= len(records)
        raise IndexError(number)


Share = tuple[Examples, Sequence[int]]
"""Numbers of examples that go into a batch one after the other."""


@dataclass(frozen=True)
class Decoder:
    """Finds image and class in records, and decodes images into rows of a batch; ``classes``: how many there are."""

    reader: BlockReader
    decode: Decode
    shape: tuple[int, int, int]
    classes: int

    def examples(self, records: list[Records]) -> Examples:
        """Image and class of each record.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        try:
            images, classes = images_and_classes(records)
        except StrangeRecordError as error:
            raise self.reader.damage(error.record, "record", "a tf.train.Example", str(error)) from None
        found = Examples(images, classes.astype(np.int32), records)
        for number in np.flatnonzero((classes < 0) | (classes >= self.classes))[:1].tolist():
            expected = f"0 to {self.classes - 1}"
            raise self.reader.damage(found.record(number), "class", expected, str(classes[number]))
        return found

    def pixels(self, examples: Examples, numbers: Sequence[int], images: Pixels) -> None:
        """Fill ``images`` from as many ``examples``, those of ``numbers``.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        for row, number in enumerate(numbers):
            try:
                self.decode(examples.images[number], images[row])
            except ImageProblem as problem:
                raise self.reader.damage(examples.record(number), "image", problem.expected, problem.found) from None


def batches(
    windows: Callable[[], Iterator[Window]], decoder: Decoder, batch_size: int, *, readers: int, threads: int
) -> Generator[tuple[Pixels, Labels], None, None]:
    """Batches of ``batch_size`` records in the order of ``windows``; the last may be smaller."""
    with (
        _pool(1, "shardfeed-find") as finding,  # ends after the readers: it waits for them
        _pool(readers, "shardfeed-read") as reading,
        _pool(threads, "shardfeed-decode") as decoding,
    ):
        chunk = chunk_size(decoder.shape, threads)
        ahead = max(_BATCHES_AHEAD, -(-_TASKS_AHEAD * threads * chunk // batch_size))
        pending: deque[_Pending] = deque()
        for shares in _batched(_read(windows(), decoder, readers, reading, finding), batch_size):
            pending.append(_Pending.start(shares, decoder, decoding, chunk))
            if len(pending) > ahead:
                yield pending.popleft().finished()
        while pending:
            yield pending.popleft().finished()


def chunk_size(shape: tuple[int, int, int], threads: int) -> int:
    """Records a task: ``CHUNK``, or fewer where all tasks ahead would hold more than ``DECODED_AHEAD`` bytes of pixels."""
    return max(1, min(CHUNK, DECODED_AHEAD // (_TASKS_AHEAD * threads * math.prod(shape))))


@dataclass(frozen=True)
class _Pending:
    images: Pixels
    labels: Labels
    tasks: list[Future[None]]

    @classmethod
    def start(cls, shares: list[Share], decoder: Decoder, pool: Executor, chunk: int) -> _Pending:
        images = np.empty((sum(len(numbers) for _, numbers in shares), *decoder.shape), np.uint8)
        labels = np.concatenate([examples.labels[numbers] for examples, numbers in shares])
        tasks, row = [], 0
        for examples, numbers in shares:
            for at in range(0, len(numbers), chunk):
                part = numbers[at : at + chunk]
                tasks.append(pool.submit(decoder.pixels, examples, part, images[row : row + len(part)]))
                row += len(part)
        return cls(images, labels, tasks)

    def finished(self) -> tuple[Pixels, Labels]:
        for task in self.tasks:
            task.result()
        return self.images, self.labels


def _batched(windows: Iterator[Share], batch_size: int) -> Iterator[list[Share]]:
    """Shares of ``windows`` that make a batch together; the last may be smaller."""
    batch: list[Share] = []
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
    windows: Iterator[Window], decoder: Decoder, readers: int, reading: Executor, finding: Executor
) -> Iterator[Share]:
    """Examples of ``windows`` and their order; the next one, or more where ``readers`` would have too little to do, is read while
    this one is used up.
    """
    ahead: deque[tuple[Window, Future[Examples]]] = deque()
    ended = False
    while not ended or ahead:
        while not ended and (len(ahead) <= _WINDOWS_AHEAD or sum(len(one.pieces) for one, _ in ahead) <= readers):
            window = next(windows, None)
            if window is None:
                ended = True
            else:
                blocks = [reading.submit(decoder.reader.read, piece.block) for piece in window.pieces]
                ahead.append((window, finding.submit(_found, decoder, window, blocks)))
        if ahead:
            window, examples = ahead.popleft()
            yield examples.result(), window.order


def _found(decoder: Decoder, window: Window, blocks: Sequence[Future[Records]]) -> Examples:
    pieces = zip(window.pieces, blocks, strict=True)
    return decoder.examples([block.result().part(piece.skip, piece.records) for piece, block in pieces])


@contextmanager
def _pool(threads: int, name: str) -> Iterator[Executor]:
    pool: Any = ThreadPoolExecutor(threads, name)
    wait = True
    try:
        yield pool
    except KeyboardInterrupt:  # a store that does not answer would keep its user waiting for minutes
        wait = False
        raise
    finally:  # also when the caller leaves the stream in the middle
        pool.shutdown(wait=wait, cancel_futures=True)
