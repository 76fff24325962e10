"""Which host this is, of how many: said by the caller, or asked of the framework that trains.

The one decision: one framework is asked, the one that Keras runs on. JAX says which host this is when its processes have found
each other (``jax.distributed.initialize``), Keras' distribution how many devices share a batch. Asking TensorFlow too would
start the devices of one under the other.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from shardfeed.accelerator import jax_replicas
from shardfeed.arguments import host_pair
from shardfeed.warning import warn


@dataclass(frozen=True)
class Host:
    """Host number ``index`` of ``count``; ``replicas`` devices of all hosts together share a batch."""

    index: int
    count: int
    replicas: int


def find_host(host: object = None) -> Host:
    """The host that ``load``'s argument ``host`` means; None asks the runtime.

    Raises:
        UsageError: neither None, (index, count) with 0 <= index < count, nor a ``tf.distribute.InputContext``.
    """
    if host is None:
        return _jax_host() or _tensorflow_host()
    if isinstance(host, tf.distribute.InputContext):
        return Host(
            host.input_pipeline_id, host.num_input_pipelines, max(host.num_input_pipelines, host.num_replicas_in_sync)
        )
    index, count = host_pair(host, ", a tf.distribute.InputContext or None")
    return Host(index, count, count)


def _jax_host() -> Host | None:
    """None unless Keras runs on JAX; nothing is imported for it that its user has not imported."""
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    together = jax.distributed.is_initialized()
    if together:
        import keras
    elif (keras := sys.modules.get("keras")) is None:
        return None
    if keras.config.backend() != "jax":
        return None
    distribution = keras.distribution.distribution()
    if not together:
        return Host(0, 1, jax_replicas(distribution))
    replicas = jax.device_count() if distribution is None else jax_replicas(distribution)
    return Host(jax.process_index(), jax.process_count(), max(jax.process_count(), replicas))


def _tensorflow_host() -> Host:
    strategy: Any = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        if workers := workers_without_strategy():
            warn(
                f"TF_CONFIG names {workers} workers, but load was called outside a strategy's scope, so that each of them reads "
                "the whole split. Call it inside strategy.scope(), or pass host=(index, count)."
            )
        return Host(0, 1, replicas)  # one process feeds all, also those of a TPU pod
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict() if resolver is not None else {}
    # A chief is worker 0 where there is one.
    chiefs, workers = len(cluster.get("chief", ())), len(cluster.get("worker", ()))
    if chiefs + workers < 2:
        return Host(0, 1, replicas)
    index = int(resolver.task_id) + (chiefs if resolver.task_type == "worker" else 0)
    return Host(index, chiefs + workers, replicas)


def workers_without_strategy() -> int:
    """Workers that TF_CONFIG names where no strategy is in scope, if each trains as this process does; else 0."""
    if tf.distribute.has_strategy():
        return 0
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        cluster, task = config["cluster"], config.get("task", {}).get("type", "worker")
        workers = sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))
        # Else a coordinator reads for all, or this is the evaluator, which reads all.
        alike = "ps" not in cluster and task in ("chief", "worker")
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0  # not for us to judge: the strategy that reads it will
    return workers if alike and workers > 1 else 0
