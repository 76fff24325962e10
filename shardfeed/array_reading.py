"""Windows to decoded batches: reads ahead in one pool of threads, decodes in another, hands batches out in order.

The one decision: two pools. A reader waits for the store and a decoder for a core; in one pool, reads of the next window would
queue behind the decoding of this one, and the stream would stop at every window's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardfeed.array_blocks import Block, BlockReader, Record
from shardfeed.array_decode import Bytes, Decode, ImageProblem, image_and_class
from shardfeed.array_order import Window

CHUNK = 64  # records a task: 16 ms of decoding for 0.1 ms of handing it over
_BATCHES_AHEAD = 2
_WINDOWS_AHEAD = 1

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int32]


class Example(NamedTuple):
    """Image and class of a record, and where it lies: the ``number``-th of ``block``."""

    image: Bytes
    label: int
    block: Block
    number: int


@dataclass(frozen=True)
class Decoder:
    """Finds image and class in records, and decodes images into rows of a batch; ``classes``: how many there are."""

    reader: BlockReader
    decode: Decode
    shape: tuple[int, int, int]
    classes: int

    def read(self, block: Block) -> list[Example]:
        """All of a block. Here, not while images are decoded: in a loop of its own ``example`` takes 3 µs a record, between two
        images, each of which drives the interpreter out of the processor's caches, four times as long.
        """
        return [self.example(record) for record in self.reader.read(block)]

    def example(self, record: Record) -> Example:
        """Image and class of a record.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        try:
            image, label = image_and_class(record.data)
        except ValueError as error:
            raise self.reader.damage(record, "record", "a tf.train.Example", str(error)) from None
        if not 0 <= label < self.classes:
            raise self.reader.damage(record, "class", f"0 to {self.classes - 1}", str(label))
        return Example(image, label, record.block, record.number)

    def pixels(self, examples: Sequence[Example], images: Pixels) -> None:
        """Fill ``images`` from as many ``examples``.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        for row, example in enumerate(examples):
            try:
                self.decode(example.image, images[row])
            except ImageProblem as problem:
                record = self.reader.read(example.block)[example.number]
                raise self.reader.damage(record, "image", problem.expected, problem.found) from None


def batches(
    windows: Callable[[], Iterator[Window]], decoder: Decoder, batch_size: int, *, readers: int, threads: int
) -> Generator[tuple[Pixels, Labels], None, None]:
    """Batches of ``batch_size`` records in the order of ``windows``; the last may be smaller."""
    with _pool(readers, "shardfeed-read") as reading, _pool(threads, "shardfeed-decode") as decoding:
        examples = _examples(windows(), decoder, reading, readers)
        ahead = max(_BATCHES_AHEAD, -(-2 * threads * CHUNK // batch_size))
        pending: deque[_Pending] = deque()
        while rows := list(islice(examples, batch_size)):
            pending.append(_Pending.start(rows, decoder, decoding))
            if len(pending) > ahead:
                yield pending.popleft().finished()
        while pending:
            yield pending.popleft().finished()


@dataclass(frozen=True)
class _Pending:
    images: Pixels
    labels: Labels
    tasks: list[Future[None]]

    @classmethod
    def start(cls, examples: list[Example], decoder: Decoder, pool: Executor) -> _Pending:
        images = np.empty((len(examples), *decoder.shape), np.uint8)
        labels = np.array([example.label for example in examples], np.int32)
        chunks = (slice(at, at + CHUNK) for at in range(0, len(examples), CHUNK))
        tasks = [pool.submit(decoder.pixels, examples[chunk], images[chunk]) for chunk in chunks]
        return cls(images, labels, tasks)

    def finished(self) -> tuple[Pixels, Labels]:
        for task in self.tasks:
            task.result()
        return self.images, self.labels


def _examples(windows: Iterator[Window], decoder: Decoder, pool: Executor, readers: int) -> Iterator[Example]:
    """Examples of ``windows`` in order; the next one, or more where ``readers`` would have too little to do, is read while this
    one is used up.
    """
    ahead: deque[tuple[Window, list[Future[list[Example]]]]] = deque()
    ended = False
    while not ended or ahead:
        while not ended and (len(ahead) <= _WINDOWS_AHEAD or sum(len(blocks) for _, blocks in ahead) <= readers):
            window = next(windows, None)
            if window is None:
                ended = True
            else:
                ahead.append((window, [pool.submit(decoder.read, piece.block) for piece in window.pieces]))
        if ahead:
            window, blocks = ahead.popleft()
            found: list[Example] = []
            for piece, block in zip(window.pieces, blocks, strict=True):
                found += block.result()[piece.skip : piece.skip + piece.records]
            yield from (found[number] for number in window.order)


@contextmanager
def _pool(threads: int, name: str) -> Iterator[Executor]:
    pool: Any = ThreadPoolExecutor(threads, name)
    try:
        yield pool
    finally:  # also when the caller leaves the stream in the middle
        pool.shutdown(wait=True, cancel_futures=True)
