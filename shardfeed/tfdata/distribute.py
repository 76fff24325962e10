"""``distribute`` and ``input_fn``: ``load`` under a strategy, and as a function of ``params``.

Each host reads its own share through ``load``; nothing is cut afterwards. TensorFlow's other way,
``experimental_distribute_dataset``, reads the whole batch on each host of a TPU pod.

Not needed for ``fit`` on one host: it takes what ``load`` gives, under any strategy.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import tensorflow as tf

from shardfeed.accelerator.hosts import find_host
from shardfeed.arguments import is_training, positive, unexpected
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.training_streams import StreamSource, remember, source_of
from shardfeed.errors import UsageError, clip
from shardfeed.sampling.steps import host_batch
from shardfeed.tfdata.load import load


def distribute(
    strategy: Any, dataset: DatasetInfo | str | os.PathLike[str], split: str, batch_size: int, **options: Any
) -> Any:
    """``load`` for custom loops under ``strategy``: each replica gets batch_size / replicas rows.

        for x, y in shardfeed.distribute(strategy, info, "train", 1024):
            strategy.run(step, args=(x, y))

    ``fit`` and ``evaluate`` take it too. If several hosts feed one program (a TPU pod),
    ``evaluate`` needs ``steps``. A global step holds the records of one step of ``load``.

    Args:
        strategy: Any strategy of ``tf.distribute``.
        dataset: As for ``load``.
        split: As for ``load``.
        batch_size: Records per step, over all replicas.
        **options: Any other argument of ``load`` but ``host``, which the strategy knows, and
            ``eval_remainder``.

    Raises:
        UsageError: as ``load``; a batch that is no multiple of the replicas.
    """
    if not isinstance(strategy, tf.distribute.Strategy | tf.compat.v1.distribute.Strategy):
        raise UsageError(
            f"strategy={clip(repr(strategy))}: expected a strategy of tf.distribute, such as detect_accelerator().strategy where "
            "Keras runs on TensorFlow. On JAX, give what load gives to fit: Keras' distribution shares it out."
        )
    found = opened(dataset)
    found.splits[split]
    replicas = strategy.num_replicas_in_sync
    share = host_batch(positive("batch_size", batch_size), 1, replicas) // replicas
    _refuse("distribute", options, "host", "the strategy says which host this is")
    _refuse("distribute", options, "eval_remainder", "each replica needs a batch of the same size in each step")

    hosts: list[tf.data.Dataset] = []
    source: StreamSource | None = None

    def of_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
        nonlocal source
        batches = load(found, split, batch_size, host=context, **options)
        source = source_of(batches)
        if context.num_input_pipelines == 1:
            hosts.append(batches)
        return batches.rebatch(share, drop_remainder=True).prefetch(2 * replicas // context.num_input_pipelines)

    shared = strategy.distribute_datasets_from_function(of_host)
    if len(hosts) == 1 and hosts[0].cardinality() != tf.data.INFINITE_CARDINALITY:
        # The length of ``shared`` counts a replica's batches, not steps. Keras 3.15 then runs one
        # step too many, whose missing rows count in the loss: 0.976 of the true loss with 5 steps
        # on 8 replicas. This one has the right length.
        shared = strategy.experimental_distribute_dataset(hosts[0])
    if source is not None:
        remember(shared, replace(source, reopen=None))
    return shared


def input_fn(
    dataset: DatasetInfo | str | os.PathLike[str], split: str, **options: Any
) -> Callable[[Mapping[str, Any]], tf.data.Dataset]:
    """A function of ``params`` that gives this host's batches, for code written for TPUEstimator.

    ``params["batch_size"]`` is the batch of one host, not the global one. ``params["context"]``, a
    ``tf.distribute.InputContext``, says which host this is; without it the runtime is asked, as by
    ``load``.

    Args:
        dataset: As for ``load``.
        split: As for ``load``.
        **options: Any other argument of ``load`` but ``host``.

    Raises:
        UsageError: no dataset or split. From the function: ``params`` without "batch_size",
            another context, and as ``load``.
    """
    _refuse("input_fn", options, "host", 'params["context"] says which host this is')
    # an unknown option is a TypeError here, as for ``load``
    inspect.signature(load).bind(dataset, split, 1, **options)
    found = opened(dataset)
    is_training(found.splits[split].name, options.get("training"))

    def of_params(params: Mapping[str, Any]) -> tf.data.Dataset:
        if not isinstance(params, Mapping) or "batch_size" not in params:
            raise unexpected("params", params, 'params["batch_size"], the records of one batch on this host')
        here = find_host(params.get("context"))
        size = positive('params["batch_size"]', params["batch_size"])
        return load(found, split, size * here.count, host=(here.index, here.count), **options)

    return of_params


def _refuse(name: str, options: Mapping[str, Any], option: str, why: str) -> None:
    if option in options:
        raise UsageError(f"{name}(…, {option}=…): {why}. Leave {option} out.")
