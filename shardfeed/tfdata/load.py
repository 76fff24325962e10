"""``load``: a split of a dataset as a ``tf.data.Dataset`` that feeds Keras directly.

    blocks → windows → read ahead → chunks of at most 128 records → one map: parse, decode, cut →
    batches → prefetch

A stream is a function of its arguments. Each host can compute each step without the steps before
it: which records (``shardfeed.sampling``) and which pixels (``shardfeed.tfdata.crops``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

import tensorflow as tf

from shardfeed.accelerator.detect import hide_gpus_from_tensorflow
from shardfeed.accelerator.devices import keras_backend
from shardfeed.accelerator.hosts import find_host
from shardfeed.arguments import byte_count, choice, crop_kind, flag, integer, is_training, positive
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.reader_arguments import cache_place, shown_size
from shardfeed.dataset.shown_columns import shown_columns
from shardfeed.dataset.training_streams import StreamSource, remember
from shardfeed.errors import UsageError
from shardfeed.sampling import order
from shardfeed.sampling.steps import host_batch
from shardfeed.sampling.streams import is_elastic
from shardfeed.tfdata.decode import DecodeOptions
from shardfeed.tfdata.streams import SplitStream


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
    host: tuple[int, int] | tf.distribute.InputContext | str | None = None,
    image_size: int | tuple[int, int] | None = None,
    crop: str | None = None,
    label: str = "int",
    as_dict: bool = False,
    columns: Sequence[str] | None = None,
    max_len: int | Mapping[str, int] | None = None,
    cache: str | os.PathLike[str] | None = None,
    eval_remainder: str = "pad",
) -> tf.data.Dataset:
    """Batches of one split for this host, images decoded, in static shapes; b = batch_size / hosts.

    Training: ``(x, y)`` without end. ``x`` is uint8[b, height, width, channels], 0 to 255; ``y``
    is int32[b], indices into ``info.classes``. Every pass holds every record exactly once, over
    all hosts, in an order that depends on ``(seed, pass)`` and ``shuffle_buffer`` alone: row r of
    host h of H is row r * H + h of the global batch. A number of hosts that does not divide the
    split's streams (see ``start_step``) has an order of its own. Batches straddle passes. Give
    ``fit`` a ``steps_per_epoch`` (``info.steps_per_epoch``).

    Evaluation: ``(x, y, w)`` of known length, the same on every host; every record exactly once,
    in the order of the shards. ``w`` is float32[b]: 0 on rows that fill up the last batch, and
    (number of rows / number of records) on the others. With it, Keras' ``weighted_metrics`` and a ``loss`` with Keras'
    default reduction ("sum_over_batch_size") are exactly those of the records. ``metrics=`` ignore
    weights and count the padding. Losses with reduction="mean_with_sample_weight" or "sum" are
    exact with eval_remainder="partial" only.

    Args:
        dataset: What ``shardfeed.info`` gave, or an address that it takes.
        split: Name of the split, or a part of it such as "train[:10%]" (see ``info.splits``).
        batch_size: Records per step over all hosts and devices; a multiple of both numbers.
        training: True or False chooses the form. By default "train" is trained on; "validation",
            "valid", "val", "dev", "test" and "eval" are evaluated; any other name needs this
            argument.
        epochs: Training: end after this many passes, that is after floor(epochs × records /
            batch_size) batches. The last pass leaves out less than a batch at its end (and up to
            (hosts - 1) × epochs records, if the hosts do not divide the streams). None = never
            end. Read such a stream once: each reading is the same, and a second one warns.
        seed: Training: seed of the order and of random crops.
        shuffle_buffer: Training: bytes shuffled together over all hosts ("64MB", "1GB" or an int);
            at least a block (1 MB) of each stream. As much again is read ahead.
        start_step: Training: begin with this step, as if all before it had been read. The other
            arguments must be those of the stream that is resumed. The number of hosts may be
            another one, if both divide the split's streams: the largest power of two that is at
            most 64 and at most an eighth of its blocks.
        host: (index, count), or the ``tf.distribute.InputContext`` of
            ``distribute_datasets_from_function``. None or "auto" asks JAX if Keras runs on it or
            it has started, TensorFlow's strategy in scope, and PyTorch's process group.
        image_size: Height and width of ``x`` (an int: both). None: as stored, which needs images
            of one size. Images are resized bilinearly with antialiasing and without keeping their
            ratio; choose a ``crop`` to keep it.
        crop: None; "center": the central square of 0.875 × the short side; "random_resized"
            (training): 8 to 100 % of the area at a ratio of 3/4 to 4/3, another box in each pass.
            Crops are resized to ``image_size`` or the stored size.
        label: "int", or "onehot" for ``y`` float32[b, classes]. If records have several labels,
            ``y`` is float32[b, classes] with a 1 for each label. Without labels, batches are ``x``
            alone.
        as_dict: Batches are dicts: ``image``, ``label`` (the same ``x`` and ``y``), ``key``
            string[b] (the path below the input root), ``size`` int64[b, 2] (stored height and
            width), and ``weight`` in evaluation. ``label`` is the class index; in a stored record
            it is the class name. The extra columns of the dataset (``info.columns``) are there
            under their own names: int64, float32, bool or string[b], or [b, n] for lists. Not for
            ``fit``, which takes no text.
        columns: With as_dict: names of the extra columns to give; None = all.
        max_len: With as_dict: lists of varying length are filled up to so many values, with 0,
            False or b""; an int, or a dict by column. A longer list makes reading fail.
        cache: None; "decoded": decoded images are kept in host memory (for small sets; on each
            host the whole split in training, its share in evaluation); a local folder: whole
            shards are first copied there and checked. The order is the same in all three.
        eval_remainder: Evaluation: "pad" fills the last batch up. "partial" leaves it smaller with
            weights of 1, so its batch dimension is None; "partial" is for one device only.

    Raises:
        DatasetError: no dataset is there, or a shard is absent or has another size than the
            manifest says.
        UsageError: a wrong argument; no such split; images of varying size without image_size; one
            process of several, without ``host`` and without a framework that says which; a process
            that was forked from one that had used ``load``, in which TensorFlow would hang.
        StorageError: the store kept failing, or the folder of ``cache`` cannot be written.
    """
    if keras_backend() in ("jax", "torch"):  # TensorFlow only reads
        hide_gpus_from_tensorflow()
    _refuse_fork()
    found = opened(dataset)
    chosen = found.splits[split]
    batch_size = positive("batch_size", batch_size)
    training = is_training(split, training)
    window_bytes = byte_count("shuffle_buffer", shuffle_buffer)
    seed, start_step = integer("seed", seed), integer("start_step", start_step, least=0)
    pad = choice("eval_remainder", eval_remainder, ("pad", "partial")) == "pad"
    here = find_host(host)
    options = DecodeOptions(
        size=shown_size(found, image_size),
        crop=crop_kind(crop, training=training),
        crop_seed=order.crop_seed(seed),
        classes=len(found.classes),
        onehot=choice("label", label, ("int", "onehot")) == "onehot",
        label_kind=found.label_kind,
        columns=shown_columns(found, columns, max_len, as_dict=flag("as_dict", as_dict)),
    )
    share = host_batch(batch_size, here.count, here.replicas)
    stream = SplitStream(
        found, chosen, here, share=share, options=options, as_dict=flag("as_dict", as_dict), cache=cache_place(cache)
    )
    # No step of a stream branches on a tensor. Converting their code anyway would cost a process's
    # first call of ``load`` a second.
    unconverted = tf.autograph.experimental.do_not_convert
    if training:
        batches = unconverted(stream.train)(epochs, seed, window_bytes, start_step)
        order_of = {
            "seed": seed, "shuffle_buffer": window_bytes, "start_step": start_step, "image_size": options.size, "crop": crop,
            "label": label, "hosts": "any" if is_elastic(len(stream.blocks), here.count) else here.count,
        }  # fmt: skip
        again = partial(
            load, found, split, batch_size, training=True, epochs=epochs, seed=seed, shuffle_buffer=window_bytes, host=host,
            image_size=image_size, crop=crop, label=label, as_dict=as_dict, columns=columns,
            max_len=max_len, cache=cache,
        )  # fmt: skip

        def reopen(steps: int) -> tf.data.Dataset:
            return again(start_step=start_step + steps)

        remember(batches, StreamSource(found, split, batch_size, epochs, order_of, reopen))
        return batches
    return unconverted(stream.evaluate)(pad=pad, epochs=epochs, start_step=start_step)


_process: int | None = None  # that has made a stream


def _refuse_fork() -> None:
    """Raises UsageError in a process forked from one that made a stream: it lacks the threads."""
    global _process
    if _process not in (None, os.getpid()):
        raise UsageError(
            "load: this process was forked from one that had used load, and TensorFlow would wait for ever in it. Start "
            "processes with multiprocessing.get_context('spawn'), or read with array_batches."
        )
    _process = os.getpid()
