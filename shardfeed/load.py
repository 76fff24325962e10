"""``load``: a split of a dataset as a ``tf.data.Dataset`` that feeds Keras directly.

    blocks → windows → read ahead → chunks of at most 128 records → one map: parse and decode → batches → prefetch

The one decision: nothing adapts at run time. Parallelism is fixed from the machine's cores, autotune is off, the threads
are our own and the order is deterministic. Of a graph that only decodes from memory (2 cores), AUTOTUNE reached 0.88, fixed
parallelism with a private pool 0.96; and fixed is what makes two runs equal.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed import order, storage, windows
from shardfeed.arguments import byte_count, choice, integer, positive
from shardfeed.cut import host_batch, host_range
from shardfeed.dataset_info import DatasetInfo, SplitInfo, info
from shardfeed.decode import chunk_decoder
from shardfeed.errors import UsageError, clip
from shardfeed.hosts import Host, find_host
from shardfeed.preflight import check_split

_CHUNK = 128  # records a decode call: 308 µs an image for 408 µs one by one; more only costs memory
_CALLS = 64  # decode calls at a time at most: one holds 19 MB of 224 × 224 pixels, and 64 cores outrun any accelerator
_SPAN_BYTES = 16_000_000  # bytes an evaluation reader holds at most
_LOCAL_READERS = 1  # the read-ahead is a thread of its own already; reading costs a thirtieth of decoding
_REMOTE_READERS = 8  # requests in flight on gs://


def load(
    dataset: DatasetInfo | str | os.PathLike[str],
    split: str,
    batch_size: int,
    *,
    training: bool | None = None,
    epochs: int | None = None,
    seed: int = 0,
    shuffle_buffer: int | str = "128MB",
    start_step: int = 0,
    host: tuple[int, int] | tf.distribute.InputContext | None = None,
    eval_remainder: str = "pad",
) -> tf.data.Dataset:
    """Batches of one split, images decoded, with static shapes.

    Training: ``(x, y)`` without end; ``x`` uint8[batch_size, height, width, channels], 0 to 255, ``y`` int32[batch_size],
    indices into ``info.classes``. Every pass holds every record exactly once, in an order that depends on
    ``(seed, pass)`` and ``shuffle_buffer`` alone; batches straddle passes. Give ``fit`` a ``steps_per_epoch``
    (``info.steps_per_epoch``).

    Evaluation: ``(x, y, w)`` of known length; every record exactly once, in the order of the shards. ``w`` is
    float32[batch_size]: 0 on the rows that fill up the last batch, padded/real rows on all others, so that Keras' ``loss``
    and ``weighted_metrics`` are exactly those of the records. ``metrics=`` ignore weights and count the padding.

    Args:
        dataset: What ``shardfeed.info`` gave, a local folder or ``gs://bucket/folder``.
        split: Name of the split.
        batch_size: Records a batch.
        training: Which of the two; by default training for the split "train" only.
        epochs: Training: end after this many passes, floor(epochs × records / batch_size) batches; None = never.
        seed: Training: of the order.
        shuffle_buffer: Training: bytes shuffled together ("64MB", "1GB" or an int); as much again is read ahead.
        eval_remainder: Evaluation: "pad" fills the last batch up; "partial" leaves it smaller with weights of 1, so its
            batch dimension is None. "partial" is for one device only.

    Raises:
        DatasetError: no dataset is there, or a shard is absent or has another size than the manifest says.
        UsageError: an argument that cannot be; no such split; images of varying size.
    """
    found = dataset if isinstance(dataset, DatasetInfo) else info(dataset)
    chosen = found.splits[split]
    batch_size = positive("batch_size", batch_size)
    if training not in (None, True, False):
        raise UsageError(f"training={clip(repr(training))}: expected True, False or None.")
    window_bytes = byte_count("shuffle_buffer", shuffle_buffer)
    seed = integer("seed", seed)
    start_step = integer("start_step", start_step)
    pad = choice("eval_remainder", eval_remainder, ("pad", "partial")) == "pad"
    here = find_host(host)
    share = host_batch(batch_size, here.count, here.replicas)
    _check_size(found)
    if split == "train" if training is None else training:
        check_split(found, chosen)
        return _training(found, chosen, here, share, epochs, seed, window_bytes, start_step)
    for name, value in (("epochs", epochs), ("start_step", start_step)):
        if value:
            raise UsageError(
                f"{name}={clip(value)}: evaluation is one pass over {split}. Leave {name} out, or pass training=True."
            )
    if not pad and here.count * here.replicas > 1:
        raise UsageError(
            f"eval_remainder='partial': expected one device, found {here.count} hosts and {here.replicas} devices, which all "
            "need batches of one size. Use 'pad'."
        )
    return _evaluation(found, chosen, here, share, pad)


def _training(
    found: DatasetInfo,
    split: SplitInfo,
    host: Host,
    share: int,
    epochs: int | None,
    seed: int,
    window_bytes: int,
    start: int,
) -> tf.data.Dataset:
    mine = host_range(split.num_records, host.index, host.count)
    if split.num_records < host.count:
        raise UsageError(
            f"split {split.name} has {split.num_records} records for {host.count} hosts: train on fewer hosts."
        )
    blocks = order.blocks_of(split.shards)
    window = order.window_blocks(blocks, window_bytes)
    pieces = windows.file_pieces(_paths(found, split), blocks, _readers(found))
    records = windows.training_stream(blocks, pieces, seed=seed, window=window, mine=mine, start=start * share)
    steps = tf.data.INFINITE_CARDINALITY
    if epochs is not None:
        steps = positive("epochs", epochs) * (split.num_records // host.count) // share - start
        if not steps:
            raise UsageError(
                f"batch_size={share * host.count}: {epochs} × {split.num_records} records of {split.name} are less than "
                "one batch. Use a smaller batch_size or more epochs."
            )
        records = records.take(steps * share)
    # A window is read while the one before it is used up, which also hides the end of an epoch.
    records = records.prefetch(-(-split.num_records * window // len(blocks)))
    batches = _decoded(records, found, share, drop_remainder=True)
    return _finished(batches, steps)


def _evaluation(found: DatasetInfo, split: SplitInfo, host: Host, share: int, pad: bool) -> tf.data.Dataset:
    mine = host_range(split.num_records, host.index, host.count)
    spans = order.cut_spans(order.spans_of(split.shards, _SPAN_BYTES), mine)
    check_split(found, split, [split.shards[index] for index in sorted({span.shard for span in spans})])
    records = windows.sequential_records(_paths(found, split), spans, readers=_readers(found))
    steps = -(-split.num_records // (share * host.count))
    batches = _decoded(records, found, share, drop_remainder=False)
    padding = steps * share * host.count - split.num_records
    if pad and padding:
        warnings.warn(
            f"{padding} rows of weight 0 fill up the last batch of {split.name}: Keras' loss and weighted_metrics= are "
            "exact, metrics= are not.",
            stacklevel=3,
        )
    weigh = _padded(share, steps * share * host.count / split.num_records) if pad else _weighted
    batches = batches.map(weigh)
    if missing := steps - -(-len(mine) // share):  # one record fewer than another host can be one batch fewer
        empty = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), batches.element_spec)
        batches = batches.concatenate(tf.data.Dataset.from_tensors(empty).repeat(missing))
    return _finished(batches, steps)


def _decoded(records: tf.data.Dataset, found: DatasetInfo, batch_size: int, *, drop_remainder: bool) -> tf.data.Dataset:
    chunk = min(batch_size, _CHUNK)
    chunks = records.batch(chunk, drop_remainder=drop_remainder and chunk == batch_size)
    decoded = chunks.map(chunk_decoder(found.manifest.image), num_parallel_calls=_threads(), deterministic=True)
    return decoded if chunk == batch_size else decoded.rebatch(batch_size, drop_remainder=drop_remainder)


def _padded(batch_size: int, weight: float) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
    def pad(images: Any, labels: Any) -> tuple[Any, Any, Any]:
        real = tf.shape(labels)[0]
        missing = batch_size - real
        # Only the last batch pays for a copy of its pixels.
        images = tf.cond(missing > 0, lambda: tf.pad(images, [[0, missing], [0, 0], [0, 0], [0, 0]]), lambda: images)
        weights = tf.where(tf.range(batch_size) < real, np.float32(weight), np.float32(0))
        images = tf.ensure_shape(images, [batch_size, *images.shape[1:]])
        return images, tf.ensure_shape(tf.pad(labels, [[0, missing]]), [batch_size]), weights

    return pad


def _weighted(images: Any, labels: Any) -> tuple[Any, Any, Any]:
    return images, labels, tf.ones_like(labels, tf.float32)


def _finished(batches: tf.data.Dataset, steps: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.threading.private_threadpool_size = _threads()
    options.threading.max_intra_op_parallelism = 1
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    counted = batches.apply(tf.data.experimental.assert_cardinality(steps))
    return counted.prefetch(2).with_options(options)


def _threads() -> int:
    """Decode calls at a time, and threads: two more than cores, so that a call that waits for input leaves none idle."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 2, _CALLS)


def _readers(found: DatasetInfo) -> int:
    return _REMOTE_READERS if storage.is_remote(found.url) else _LOCAL_READERS


def _paths(found: DatasetInfo, split: SplitInfo) -> list[str]:
    return [storage.join_url(found.url, shard.file) for shard in split.shards]


def _check_size(found: DatasetInfo) -> None:
    if None in found.image_shape:
        raise UsageError(
            f"the images of the dataset at {clip(found.url)} vary in size, and a batch needs one. "
            "Build the dataset with a fixed size, for example --resize crop --image_size 224."
        )
