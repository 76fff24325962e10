"""Serialised records of a dataset in a bucket or on a web server, as tf.data.

TensorFlow's own reader of gs:// fetches 64 MiB wherever a block of 1 MB is asked for, unless a
variable of the environment is set before TensorFlow is imported, and knows no other store. So
Python's threads read blocks ahead, as those of ``array_batches`` do: one request of a block's exact
bytes, retried and checked, on every store. TensorFlow asks for whole chunks of records by number.
"""

from __future__ import annotations

import atexit
import functools
import gc
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.arrays.read_ahead import REMOTE_READERS, picked_batches, reading_threads
from shardfeed.errors import DatasetError
from shardfeed.sampling.record_order import ReadWindow

_IDLE = 60.0  # seconds after which a reading that nobody asks is ended
_FOREVER = 1 << 62  # chunks

_Reading = Generator[NDArray[np.object_], None, None]


@dataclass(frozen=True)
class RemoteRecords:
    """The records of one host's stream, which are read in chunks.

    Attributes:
        reader: Reads blocks.
        windows: From a row on, what is read.
        rows: Number of records; None: endless.
    """

    reader: BlockReader
    windows: Callable[[int], Iterator[ReadWindow]]
    rows: int | None

    def batch(self, size: int, drop_remainder: bool = False) -> tf.data.Dataset:
        """Chunks string[``size``]; without ``drop_remainder`` the last may be smaller."""
        _register_end()
        count = _FOREVER if self.rows is None else self.rows // size if drop_remainder else -(-self.rows // size)
        readings = _Readings(functools.partial(self._from, size), count)
        shape = [size if drop_remainder else None]

        def chunk(number: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(readings.chunk, [number], tf.string), shape)

        return tf.data.Dataset.range(count).map(chunk)

    def _from(self, size: int, number: int) -> _Reading:
        with reading_threads(REMOTE_READERS) as threads:
            windows = self.windows(number * size)
            for picked in picked_batches(windows, threads, read=self.reader.read, find=_places, batch_size=size):
                chunk = np.empty(sum(len(one.numbers) for one in picked), object)
                for one in picked:
                    data, starts, stops = one.found
                    chunk[one.places] = [data[number][starts[number] : stops[number]] for number in one.numbers]
                yield chunk


def _places(window: ReadWindow, blocks: list[LoadedBlock]) -> tuple[list[bytes], list[int], list[int]]:
    """By record: the block's bytes, and where the record begins and ends in them.

    An object per record would make Python's garbage collector run, which looks at all of
    TensorFlow's.
    """
    data = [block.data for block in blocks for _ in range(len(block))]
    starts = [start for block in blocks for start in block.starts.tolist()]
    return data, starts, [stop for block in blocks for stop in block.stops.tolist()]


class _Readings:
    """Readings of one stream. Each stands at the number of its next chunk, below ``count``.

    What a chunk holds depends on its number alone. So any iterator takes the reading that stands at
    the number that it asks for. If there is none, a new one begins there. Iterators that were left
    need no word of it: readings that nobody asks end.
    """

    def __init__(self, begin: Callable[[int], _Reading], count: int) -> None:
        self._begin, self._count = begin, count
        self._waiting: list[tuple[int, float, _Reading]] = []  # number, time of the last chunk
        self._lock = threading.Lock()

    def chunk(self, number: Any) -> NDArray[np.object_]:
        """The records of a chunk; called by TensorFlow."""
        number = int(number)
        reading = self._taken(number) or self._begin(number)
        try:
            found = next(reading)
        except DatasetError as error:
            # What TensorFlow makes an InvalidArgumentError of, which explain_errors looks into.
            raise ValueError(str(error)) from None
        if number + 1 < self._count:
            with self._lock:
                self._waiting.append((number + 1, time.monotonic(), reading))
        else:
            reading.close()
        return found

    def _taken(self, number: int) -> _Reading | None:
        """The reading that stands at ``number``, which leaves the list; ends those that are idle."""
        with self._lock:
            taken = next((one for one in self._waiting if one[0] == number), None)
            oldest = time.monotonic() - _IDLE
            idle = [one for one in self._waiting if one is not taken and one[1] < oldest]
            self._waiting = [one for one in self._waiting if one is not taken and one not in idle]
        for _, _, reading in idle:
            reading.close()
        return taken and taken[2]


@functools.cache
def _register_end() -> None:
    atexit.register(_end_iterators)


def _end_iterators() -> None:
    """Ends all tf.data iterators while Python can still run.

    An iterator that is left over is otherwise ended after Python has stopped. It would wait for
    requests under way, whose threads wait for Python: the program would never end.
    """
    found = gc.get_objects()
    kinds = {kind for kind in set(map(type, found)) if _is_iterator(kind)}
    for iterator in [one for one in found if type(one) in kinds]:
        vars(iterator).clear()


def _is_iterator(kind: type) -> bool:
    """True for OwnedIterator and OwnedMultiDeviceIterator, which hold what runs."""
    return kind.__name__.startswith("Owned") and kind.__module__.startswith("tensorflow.python.data.ops.")
