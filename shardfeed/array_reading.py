"""Windows to decoded batches: reads ahead in one pool of threads, decodes in another, hands batches out in order.

The one decision: two pools. A reader waits for the store and a decoder for a core; in one pool, reads of the next window would
queue behind the decoding of this one, and the stream would stop at every window's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.array_blocks import BlockReader, Record
from shardfeed.array_decode import Decode, ImageProblem, image_and_class
from shardfeed.array_order import Window

_CHUNK = 64  # records a task: 16 ms of decoding for 0.1 ms of handing it over
_BATCHES_AHEAD = 2
_WINDOWS_AHEAD = 1

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int32]


@dataclass(frozen=True)
class Decoder:
    """Decodes records into rows of a batch; ``classes``: how many there are."""

    reader: BlockReader
    decode: Decode
    shape: tuple[int, int, int]
    classes: int

    def rows(self, records: list[Record], images: Pixels, labels: Labels) -> None:
        """Fill ``images`` and ``labels`` from as many ``records``.

        Raises:
            DatasetError: names the record that is not as it should be.
        """
        for row, record in enumerate(records):
            try:
                data, label = image_and_class(record.data)
                self.decode(data, images[row])
            except ImageProblem as problem:
                raise self.reader.damage(record, "image", problem.expected, problem.found) from None
            except ValueError as error:
                raise self.reader.damage(record, "record", "a tf.train.Example", str(error)) from None
            if not 0 <= label < self.classes:
                raise self.reader.damage(record, "class", f"0 to {self.classes - 1}", str(label))
            labels[row] = label


def batches(
    windows: Callable[[], Iterator[Window]], decoder: Decoder, batch_size: int, *, readers: int, threads: int
) -> Generator[tuple[Pixels, Labels], None, None]:
    """Batches of ``batch_size`` records in the order of ``windows``; the last may be smaller."""
    with _pool(readers, "shardfeed-read") as reading, _pool(threads, "shardfeed-decode") as decoding:
        records = _records(windows(), decoder.reader, reading)
        ahead = max(_BATCHES_AHEAD, -(-2 * threads * _CHUNK // batch_size))
        pending: deque[_Pending] = deque()
        while rows := list(islice(records, batch_size)):
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
    def start(cls, records: list[Record], decoder: Decoder, pool: Executor) -> _Pending:
        images, labels = np.empty((len(records), *decoder.shape), np.uint8), np.empty(len(records), np.int32)
        chunks = (slice(at, at + _CHUNK) for at in range(0, len(records), _CHUNK))
        return cls(
            images,
            labels,
            [pool.submit(decoder.rows, records[chunk], images[chunk], labels[chunk]) for chunk in chunks],
        )

    def finished(self) -> tuple[Pixels, Labels]:
        for task in self.tasks:
            task.result()
        return self.images, self.labels


def _records(windows: Iterator[Window], reader: BlockReader, pool: Executor) -> Iterator[Record]:
    """Records of ``windows`` in order; the next window is read while this one is used up."""
    ahead: deque[tuple[Window, list[Future[list[Record]]]]] = deque()
    ended = False
    while not ended or ahead:
        while not ended and len(ahead) <= _WINDOWS_AHEAD:
            window = next(windows, None)
            if window is None:
                ended = True
            else:
                ahead.append((window, [pool.submit(reader.read, piece.block) for piece in window.pieces]))
        if ahead:
            window, blocks = ahead.popleft()
            found: list[Record] = []
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
