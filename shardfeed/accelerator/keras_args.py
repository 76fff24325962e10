"""``compile_args``, ``fit_args``: how many steps Keras runs at a time, and how many per epoch.

    model.compile(…, **shardfeed.compile_args(train))
    model.fit(train, **shardfeed.fit_args(train), epochs=10)

An epoch is a whole number of executions. Keras 3 runs a whole execution even if only a part of it
is left in the epoch (4 steps in executions of 3 are 6 steps). So the epoch is made a few steps
shorter. Nothing is lost, because the training stream goes on where the epoch ended.
"""

from __future__ import annotations

import math
import os
from typing import Any

from shardfeed.accelerator.detect import Accelerator, current_accelerator
from shardfeed.accelerator.hosts import running_host
from shardfeed.arguments import positive, unexpected
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.training_streams import StreamSource, batch_sizes, source_of
from shardfeed.errors import UsageError, clip
from shardfeed.sampling.steps import host_batch
from shardfeed.warning import warn
from shardfeed.words import plural

_STEPS = 64  # per execution; at 20 ms per step Python runs about once per second
# of one execution's batches: newer Keras on JAX puts them all on the device at once
_AHEAD_BYTES = 256 << 20


def compile_args(
    train: Any, batch_size: int | None = None, accelerator: Accelerator | None = None, split: str = "train"
) -> dict[str, int]:
    """``steps_per_execution`` for ``model.compile``.

    It is the value from 32 to 64 that leaves the fewest steps of an epoch over, and less for short
    epochs and, on JAX, for large batches. It is 1 on PyTorch, where Keras takes no other, and if
    ``MirroredStrategy`` has several replicas, because Keras 3 fails on more (keras#19246).

    Args:
        train: The training stream that ``load`` or ``distribute`` gave. If it was transformed
            afterwards: what ``shardfeed.info`` gave or the dataset's address, and the next three.
        batch_size: That of ``load``; only with an info or an address.
        accelerator: What ``detect_accelerator`` gave; None = what it gave last in this process, or
            the strategy in scope.
        split: That of ``load``; only with an info or an address.

    Raises:
        UsageError: a stream that is not known; no such split; a batch that is no multiple of the
            replicas; other hosts than those that ``load`` would read for.
    """
    return {"steps_per_execution": _plan("compile_args", train, batch_size, accelerator, split)[0]}


def fit_args(
    train: Any, batch_size: int | None = None, accelerator: Accelerator | None = None, split: str = "train"
) -> dict[str, int]:
    """Arguments for ``model.fit``: ``steps_per_epoch``, a multiple of ``steps_per_execution``.

    The arguments are those of ``compile_args``.

    Warns:
        UserWarning: ``load`` was given another batch size to train with, and the same ``info``.

    Raises:
        UsageError: as ``compile_args``; Keras' distribution would cut the data again
            (``auto_shard_dataset=True``).
    """
    execution, steps, backend = _plan("fit_args", train, batch_size, accelerator, split)
    if backend == "jax":
        _check_auto_shard()
    return {"steps_per_epoch": steps // execution * execution}


def _plan(
    function: str, train: Any, batch_size: int | None, accelerator: Accelerator | None, split: str
) -> tuple[int, int, str]:
    """Steps per execution, whole steps in one pass over the split, and Keras' backend."""
    source = _source(function, train, batch_size, split)
    if accelerator is None:
        accelerator = current_accelerator()
    if not isinstance(accelerator, Accelerator):
        raise unexpected("accelerator", accelerator, "what detect_accelerator() gave")
    # 1: a strategy of several hosts need not be in scope
    if 1 < (hosts := running_host().count) != accelerator.hosts:
        raise UsageError(
            f"accelerator of {plural(accelerator.hosts, 'host')}: load cuts for {hosts} hosts here. Call "
            "detect_accelerator() where load is called: inside the same scope(), and after the processes have found each other."
        )
    host_batch(source.batch_size, accelerator.hosts, accelerator.replicas)
    steps = max(1, source.info.splits[source.split].num_records // source.batch_size)
    return _execution(steps, _most(source.info, source.batch_size, accelerator)), steps, accelerator.backend


def _source(function: str, train: Any, batch_size: int | None, split: str) -> StreamSource:
    if not isinstance(train, (DatasetInfo, str, os.PathLike)):
        if (known := source_of(train)) is None:
            raise UsageError(
                f"{function}({clip(type(train).__name__)}): expected the training stream that load or distribute gave. One that "
                f"was transformed afterwards is not known: write {function}(info, batch_size, split={clip(repr(split))})."
            )
        if batch_size not in (None, known.batch_size):
            raise UsageError(
                f"{function}(train, batch_size={clip(batch_size)}): the stream has batch_size={known.batch_size}. Leave "
                "batch_size out."
            )
        return known
    info = opened(train)
    if batch_size is None:
        raise UsageError(
            f"{function}({clip(info.url)}): batch_size is missing. Give the stream itself, {function}(train), or "
            f"{function}(info, batch_size)."
        )
    size = positive("batch_size", batch_size)
    info.steps_per_epoch(split, size)  # warns if the split's name says that it is evaluated
    loaded = batch_sizes(info, split)
    if function == "fit_args" and loaded and size not in loaded:
        warn(
            f"fit_args was given batch_size={size} for {split}, load {' and '.join(map(str, sorted(loaded)))}: an epoch "
            "would have a wrong number of steps. Give load, compile_args and fit_args the same batch_size."
        )
    return StreamSource(info, split, size)


def _most(info: DatasetInfo, batch_size: int, accelerator: Accelerator) -> int:
    if accelerator.backend == "jax":
        height, width, channels = info.image_shape
        return max(1, min(_STEPS, _AHEAD_BYTES // (batch_size * (height or 224) * (width or 224) * channels)))
    one = accelerator.backend == "torch" or (accelerator.kind != "tpu" and accelerator.replicas > 1)
    return 1 if one else _STEPS


def _execution(steps: int, most: int) -> int:
    """The largest number in [most / 2, most] that leaves the fewest of ``steps`` over."""
    most = min(most, steps)
    return min(range(most, math.ceil(most / 2) - 1, -1), key=lambda size: steps % size)


def _check_auto_shard() -> None:
    import keras

    distribution = keras.distribution.distribution()
    if distribution is not None and distribution.auto_shard_dataset:
        raise UsageError(
            "auto_shard_dataset=True in Keras' distribution: it would cut each host's share of the data again and give "
            "wrong losses. Use detect_accelerator(), or pass auto_shard_dataset=False to the distribution."
        )
