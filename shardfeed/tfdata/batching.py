"""From a stream of records to batches: chunks, one map, rebatch, prefetch, and the options of the whole graph.

The one decision: nothing adapts at run time. Parallelism is fixed from the machine's cores, autotune is off, the threads
are our own and the order is deterministic. Of a graph that only decodes from memory (2 cores), AUTOTUNE reached 0.88, fixed
parallelism with a private pool 0.96; and fixed is what makes two runs equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from shardfeed.dataset.repeats import Repeats
from shardfeed.runtime import DECODED_AHEAD, cores
from shardfeed.tfdata.decode import Columns, Decoder

CHUNK = 128  # records a decode call: 308 µs an image for 408 µs one by one; more only costs memory
_CALLS = 64  # decode calls at a time at most: 64 cores outrun any accelerator


def batches(
    stream: tf.data.Dataset,
    decode: Decoder,
    form: Callable[[Columns], Any],
    batch_size: int,
    *,
    image: tf.TensorSpec,
    start: int = 0,
    drop_remainder: bool,
) -> tf.data.Dataset:
    """Decoded batches of ``stream``, whose first record is number ``start`` of the whole stream; ``form`` shapes them.

    ``image``: what ``decode`` makes of each record.
    """
    chunk = min(batch_size, chunk_size(image))
    chunks = stream.batch(chunk, drop_remainder=drop_remainder and chunk == batch_size)

    def decode_chunk(number: Any, records: Any) -> Any:
        positions = start + number * chunk + tf.range(tf.size(records, tf.int64))
        return form(decode(records, positions))

    decoded = chunks.enumerate().map(decode_chunk, num_parallel_calls=threads(), deterministic=True)
    return decoded if chunk == batch_size else decoded.rebatch(batch_size, drop_remainder=drop_remainder)


def finished(batches: tf.data.Dataset, steps: int, watch: Repeats | None = None) -> tf.data.Dataset:
    """``batches``, of which there are ``steps``, two ahead of whoever takes them, which ``watch`` is told of."""
    ahead = batches.apply(tf.data.experimental.assert_cardinality(steps)).prefetch(2)
    return with_options(ahead if watch is None else _watched(ahead, steps, watch))


def _watched(batches: tf.data.Dataset, steps: int, watch: Repeats) -> tf.data.Dataset:
    """``batches`` as they are. A call into Python is the only hook that every way of iterating, Keras' too, goes through."""

    def look(step: Any, batch: Any) -> Any:
        first, last = step == 0, step == steps - 1
        tf.cond(first | last, lambda: tf.numpy_function(watch, [first, last], []), tf.no_op)
        return batch

    options = tf.data.Options()
    # The call makes the stream stateful. Without this, TensorFlow would refuse to save its iterator in a checkpoint.
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.WARN
    return batches.enumerate().map(look).with_options(options)


def with_options(batches: tf.data.Dataset) -> tf.data.Dataset:
    """The same dataset on threads of its own, with nothing left to adapt."""
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.threading.private_threadpool_size = threads()
    options.threading.max_intra_op_parallelism = 1
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(options)


def chunk_size(image: tf.TensorSpec) -> int:
    """Records a decode call: ``CHUNK``, or fewer where all calls at a time would hold more than ``DECODED_AHEAD`` bytes.

    A call needs as much again for a moment, when it puts its images together.
    """
    size: int | None = image.shape.num_elements()
    if size is None:  # images of varying size are not put together
        return 1
    return max(1, min(CHUNK, DECODED_AHEAD // (threads() * size)))


def threads() -> int:
    """Decode calls at a time, and threads: two more than cores, so that a call that waits for input leaves none idle."""
    return min(cores() + 2, _CALLS)
