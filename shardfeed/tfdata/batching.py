"""From a stream of records to batches: chunks, one map, rebatch, prefetch, graph options.

Nothing adapts at run time. Parallelism is fixed by the machine's cores, autotune is off, the
threads are our own and the order is deterministic. Compared with a graph that only decodes from
memory (2 cores), AUTOTUNE reached 0.88, fixed parallelism with a private pool 0.96. Fixed settings
also make two runs equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf

from shardfeed.dataset.repeats import Repeats
from shardfeed.runtime import DECODED_AHEAD, cores
from shardfeed.tfdata.decode import ChunkDecoder, Columns

# of a decoder: 308 µs per image instead of 408 µs one by one; more only costs memory
RECORDS_PER_CALL = 128
_MOST_CALLS = 64  # at a time: 64 cores outrun any accelerator


class Records(Protocol):
    """A stream of serialised records, such as a dataset."""

    def batch(self, size: int, drop_remainder: bool = False) -> tf.data.Dataset: ...


def batches(
    stream: Records,
    decode: ChunkDecoder,
    form: Callable[[Columns], Any],
    batch_size: int,
    *,
    image: tf.TensorSpec,
    first: int = 0,
    step: int = 1,
    drop_remainder: bool,
) -> tf.data.Dataset:
    """Decoded batches of ``stream``, in the shape that ``form`` gives them.

    ``image`` is the shape of each decoded image. ``first`` is the position of the first record in
    the order of all hosts, ``step`` the distance of the next one.
    """
    chunk = min(batch_size, records_per_call(image))
    chunks = stream.batch(chunk, drop_remainder=drop_remainder and chunk == batch_size)

    def decode_chunk(number: Any, records: Any) -> Any:
        positions = first + step * (number * chunk + tf.range(tf.size(records, tf.int64)))
        return form(decode(records, positions))

    decoded = chunks.enumerate().map(decode_chunk, num_parallel_calls=threads(), deterministic=True)
    return decoded if chunk == batch_size else decoded.rebatch(batch_size, drop_remainder=drop_remainder)


def finished(batches: tf.data.Dataset, steps: int, watch: Repeats | None = None) -> tf.data.Dataset:
    """``steps`` of ``batches``, two ahead of the caller; ``watch`` notices each reading."""
    ahead = batches.apply(tf.data.experimental.assert_cardinality(steps)).prefetch(2)
    return with_options(ahead if watch is None else _watched(ahead, steps, watch))


def _watched(batches: tf.data.Dataset, steps: int, watch: Repeats) -> tf.data.Dataset:
    """``batches`` unchanged.

    Every way of iterating, Keras' too, goes through this call into Python.
    """

    def notice(step: Any, batch: Any) -> Any:
        first, last = step == 0, step == steps - 1
        tf.cond(first | last, lambda: tf.numpy_function(watch, [first, last], []), tf.no_op)
        return batch

    options = tf.data.Options()
    # The call makes the stream stateful. Without this, TensorFlow would refuse to save its
    # iterator in a checkpoint.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.WARN
    return batches.enumerate().map(notice).with_options(options)


def with_options(batches: tf.data.Dataset) -> tf.data.Dataset:
    """``batches`` with fixed settings: its own threads, a fixed order, and no autotuning."""
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    # They find nothing to fuse here, and take half of the time that an iterator takes to begin.
    options.experimental_optimization.apply_default_optimizations = False
    options.threading.private_threadpool_size = threads()
    options.threading.max_intra_op_parallelism = 1
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(options)


def records_per_call(image: tf.TensorSpec) -> int:
    """``RECORDS_PER_CALL``, or fewer to hold at most ``DECODED_AHEAD`` bytes in all calls.

    A call needs as much again for a moment, when it stacks its images.
    """
    size: int | None = image.shape.num_elements()
    if size is None:  # images of varying size are not stacked
        return 1
    return max(1, min(RECORDS_PER_CALL, DECODED_AHEAD // (threads() * size)))


def threads() -> int:
    """Decode calls at a time, and threads: two above the cores, because calls wait for input."""
    return min(cores() + 2, _MOST_CALLS)
