"""Serialised records of a dataset in a bucket or on a web server, as tf.data.

TensorFlow's own reader of gs:// fetches 64 MiB wherever a block of 1 MB is asked for, unless a
variable of the environment is set before TensorFlow is imported, and knows no other store. So
blocks are read by ``BlockReader``, as ``array_batches`` reads them: one request of a block's exact
bytes, retried and checked, on every store.
"""

from __future__ import annotations

import atexit
import functools
import gc
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.arrays.blocks import BlockReader
from shardfeed.errors import DatasetError
from shardfeed.sampling.blocks import Blocks
from shardfeed.tfdata.records import RunReader


def remote_runs(reader: BlockReader, blocks: Blocks, readers: int) -> RunReader:
    """Reader of the serialised records of runs in ``blocks``; ``readers`` requests at a time."""
    _register_end()

    def read(block: Any, skip: Any, take: Any) -> Any:
        try:
            loaded = reader.read(blocks[int(block)])
        except DatasetError as error:
            # What TensorFlow makes an InvalidArgumentError of, which explain_errors looks into.
            raise ValueError(str(error)) from None
        return np.array(
            [bytes(record.data) for record in loaded.part(int(blocks.skip[block]) + int(skip), int(take))], object
        )

    def read_run(block: Any, skip: Any, take: Any) -> Any:
        found = tf.numpy_function(read, (block, skip, take), tf.string)
        return tf.ensure_shape(found, [None])

    def read_runs(block: Any, skip: Any, take: Any) -> tf.data.Dataset:
        runs = tf.data.Dataset.from_tensor_slices((block, skip, take))
        return runs.map(read_run, num_parallel_calls=readers, deterministic=True).unbatch()

    return read_runs


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
