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
import weakref
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.arrays.read_ahead import REMOTE_READERS, picked_batches, reading_threads
from shardfeed.errors import DatasetError, ShardfeedError
from shardfeed.sampling.record_order import ReadWindow

_MOST = 2  # readings of a stream that wait: each may hold two windows
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
        shape = [size if drop_remainder else None]

        def new() -> _Readings:
            return _Readings(functools.partial(self._from, size), count)

        # TensorFlow keeps the function that it calls as long as the program runs, so the function
        # must not keep the readings. The dataset does.
        readings = new()
        kept, of_a_graph_that_outlives_it = weakref.ref(readings), functools.cache(new)

        def chunk(number: Any) -> NDArray[np.object_]:
            return (kept() or of_a_graph_that_outlives_it()).chunk(int(number))

        def asked(number: Any) -> Any:
            # What a chunk holds depends on its number alone: there is no state.
            return tf.ensure_shape(tf.numpy_function(chunk, [number], tf.string, stateful=False), shape)

        chunks = tf.data.Dataset.range(count).map(asked)
        chunks._shardfeed_readings = readings
        return chunks

    def _from(self, size: int, first: int) -> _Reading:
        with reading_threads(REMOTE_READERS, wait=False) as threads:
            windows = self.windows(first * size)
            for picked in picked_batches(windows, threads, read=self.reader.read, find=_places, batch_size=size):
                chunk = np.empty(sum(len(one.numbers) for one in picked), object)
                for one in picked:
                    data, starts, stops = one.found
                    chunk[one.places] = [data[record][starts[record] : stops[record]] for record in one.numbers]
                yield chunk


def _places(window: ReadWindow, blocks: list[LoadedBlock]) -> tuple[list[bytes], list[int], list[int]]:
    """By record: the block's bytes, and where the record begins and ends in them.

    An object per record would make Python's garbage collector run, which looks at all of
    TensorFlow's. It does not count integers and bytes.
    """
    data = [block.data for block in blocks for _ in range(len(block))]
    starts = [start for block in blocks for start in block.starts.tolist()]
    return data, starts, [stop for block in blocks for stop in block.stops.tolist()]


class _Readings:
    """Gives any chunk below ``count``; readings go on where they stopped.

    What a chunk holds depends on its number alone. So any iterator takes the reading that is ready
    to give what it asks for. If there is none, a new one begins there. An iterator that was left
    leaves a reading behind: the one that waits longest ends if there are more than ``_MOST``. Behind
    a chunk that failed nothing is read, until somebody asks for it again or for one before it.
    """

    def __init__(self, begin: Callable[[int], _Reading], count: int) -> None:
        self._begin, self._count = begin, count
        # Next chunk and reading, the one that waits longest first.
        self._lock, self._waiting = threading.Lock(), list[tuple[int, _Reading]]()
        self._failed: tuple[int, type[Exception], str] | None = None

    def chunk(self, number: int) -> NDArray[np.object_]:
        """The records of a chunk."""
        if self._failed is not None:
            failed, kind, text = self._failed
            if number > failed:  # TensorFlow asks on for an iterator that ends with this error
                raise kind(text)
            self._failed = None
        with self._lock:
            place = next((place for place, (due, _) in enumerate(self._waiting) if due == number), None)
            ready = None if place is None else self._waiting.pop(place)[1]
        reading = self._begin(number) if ready is None else ready
        try:
            found = next(reading)
        except ShardfeedError as error:
            # Of a ValueError TensorFlow makes an InvalidArgumentError, which explain_errors looks into.
            kind = ValueError if isinstance(error, DatasetError) else type(error)
            self._failed = number, kind, str(error)
            raise kind(str(error)) from None
        if number + 1 < self._count:
            with self._lock:
                self._waiting.append((number + 1, reading))
                too_many, self._waiting = self._waiting[:-_MOST], self._waiting[-_MOST:]
            for _, old in too_many:
                old.close()
        return found


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
