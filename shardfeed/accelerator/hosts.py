"""Which host this is, of how many: said by the caller, or asked of the frameworks that run here.

Every reader asks here, and so do ``detect_accelerator`` and ``fit_args``. A framework answers once
it has been set up: JAX if Keras runs on it or it has started, TensorFlow if a strategy is in
scope, PyTorch if its process group is initialised. Being imported is not enough: TensorFlow
imports JAX, and a question starts JAX's devices, which no other framework can use from then on.

Variables of the environment are no answer, because child processes inherit them and need not train
together. Nor are TPU chips, because one host may have them all. Both are a reason to ask the user:
a wrong guess gives each process a copy of the data, or trains on a part of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from shardfeed.accelerator.devices import check_keras, jax_replicas, keras_backend, tpu_chips
from shardfeed.arguments import host_pair
from shardfeed.errors import UsageError, clip

# Variable of the number of processes: variable of the number of this process. They are those of
# torchrun, Open MPI's mpirun and srun. SLURM_NTASKS is not here, because a batch script, which is
# one process, has it too.
_LAUNCHERS = {
    "WORLD_SIZE": "RANK",
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",
}


@dataclass(frozen=True)
class Host:
    """Host number ``index`` of ``count``. ``replicas``: devices of all hosts that share a batch."""

    index: int
    count: int
    replicas: int


def find_host(host: object = None) -> Host:
    """The host that a reader's argument ``host`` means; None and "auto" ask the runtime.

    Raises:
        UsageError: neither None, "auto", (index, count) with 0 <= index < count, nor a
            ``tf.distribute.InputContext``; or the runtime is asked and does not know, or its
            frameworks disagree.
    """
    if host is None or (isinstance(host, str) and host == "auto"):
        found = running_host()
        if doubt := one_of_several():
            raise UsageError(doubt)
        return found
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(host, tensorflow.distribute.InputContext):
        count = host.num_input_pipelines
        return Host(host.input_pipeline_id, count, max(count, host.num_replicas_in_sync))
    index, count = host_pair(host)
    return Host(index, count, count)


def running_host() -> Host:
    """The host that the frameworks of this process say it is; one of one if they say nothing.

    Raises:
        UsageError: two of them say different things.
    """
    answers = _answers()
    several = {name: (host.index, host.count) for name, host in answers.items() if host.count > 1}
    if len(set(several.values())) > 1:
        said = ", ".join(
            f"{name} says that it is number {index} of {count}" for name, (index, count) in several.items()
        )
        raise UsageError(
            f"this process is one of several, and its frameworks disagree: {said}. Pass host=(index, count), or set up only the "
            "framework that trains."
        )
    return max(answers.values(), key=lambda host: (host.count, host.replicas), default=Host(0, 1, 1))


def one_of_several() -> str:
    """Why this process may be one of several although no framework says so; "" if no sign of it."""
    if worker := dataloader_worker():
        return _same_records(worker)
    answers, task = _answers(), _tf_config_task()
    if any(host.count > 1 for host in answers.values()):
        return ""
    pair: tuple[object, object] = ("index", "count")
    if "TensorFlow" not in answers and task:
        pair = task
        found = f"TF_CONFIG names {task[1]} workers, but no strategy is in scope"
        remedy = "Call this inside the scope() of a MultiWorkerMirroredStrategy"
    elif "PyTorch" not in answers and (variable := _launcher()):
        pair = os.environ.get(_LAUNCHERS[variable], "index"), os.environ[variable]
        found = f"{variable}={clip(pair[1], 20)} is in the environment, but no framework has found the other processes"
        remedy = "Call torch.distributed.init_process_group() or jax.distributed.initialize() first"
    elif not answers and tpu_chips() and not _tensorflow_for_tpu():
        found = "this machine has TPU chips and may be one of several hosts, but JAX has not started"
        remedy = "Call jax.distributed.initialize() first, or set KERAS_BACKEND=jax for Keras"
    else:
        return ""
    index, count = (clip(part, 20) for part in pair)
    return (
        f"{found}, so that each process would read the whole split. {remedy}; or pass host=({index}, {count}) for this process's "
        "share, host=(0, 1) for the whole split."
    )


def _launcher() -> str | None:
    """The variable by which a launcher says that it started this process as one of several."""
    return next(
        (name for name in _LAUNCHERS if (count := os.environ.get(name, "")).isdecimal() and int(count) > 1), None
    )


def dataloader_worker() -> tuple[int, int] | None:
    """Number and count of worker processes, if this is one of several of PyTorch's DataLoader."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data is not None else None
    return (worker.id, worker.num_workers) if worker is not None and worker.num_workers > 1 else None


def check_same_worker(made_in: tuple[int, int] | None) -> None:
    """Raises UsageError in a DataLoader worker if ``made_in`` was another process."""
    if (worker := dataloader_worker()) and worker != made_in:
        raise UsageError(_same_records(worker))


def _same_records(worker: tuple[int, int]) -> str:
    return (
        f"this is worker {worker[0]} of {worker[1]} of a DataLoader, each of which would read the same records. Use "
        "num_workers=0, because threads decode on all cores already, or pass host=(index, count) in each worker."
    )


def _answers() -> dict[str, Host]:
    asked = {"JAX": _jax_host(), "TensorFlow": _tensorflow_host(), "PyTorch": _torch_host()}
    return {name: host for name, host in asked.items() if host is not None}


def _jax_host() -> Host | None:
    jax = sys.modules.get("jax")
    on_jax = keras_backend() == "jax"
    if jax is None or not (on_jax or _jax_runs(jax)):
        return None
    # Not is_initialized: on a TPU pod jax.distributed.initialize is optional.
    index, count = jax.process_index(), jax.process_count()
    keras = sys.modules.get("keras")
    if keras is None or not on_jax:
        return Host(index, count, count)
    distribution = keras.distribution.distribution()
    if distribution is None:
        return Host(index, count, jax.device_count() if count > 1 else 1)
    check_keras(keras)
    return Host(index, count, max(count, jax_replicas(distribution)))


def _jax_runs(jax: Any) -> bool:
    """Whether JAX is set up: its processes have found each other, or its devices have started."""
    if hasattr(jax.distributed, "is_initialized"):
        together = jax.distributed.is_initialized()
    else:  # before JAX 0.5.1
        together = sys.modules["jax._src.distributed"].global_state.client is not None
    # JAX has no public name for this. If the private one goes away, TPU chips still make it an
    # error not to know.
    started = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    return together or (started is not None and started())


def _tensorflow_host() -> Host | None:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not tensorflow.distribute.has_strategy():
        return None
    strategy: Any = tensorflow.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    several = isinstance(strategy, tensorflow.distribute.MultiWorkerMirroredStrategy)
    resolver = strategy.cluster_resolver if several else None
    if resolver is None:
        return Host(0, 1, replicas)  # one process feeds all, also those of a TPU pod
    index, count = _task(resolver.cluster_spec().as_dict(), resolver.task_type, resolver.task_id)
    return Host(index, count, replicas) if count > 1 else Host(0, 1, replicas)


def _tf_config_task() -> tuple[int | str, int] | None:
    """(index of this process, number of workers) if TF_CONFIG names several equal workers.

    The index is the word "index" if TF_CONFIG does not give it.
    """
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        cluster, task = config["cluster"], config.get("task", {})
        kind = task.get("type", "worker")
        index, count = _task(cluster, kind, task.get("index", 0))
        # Else a coordinator reads for all, or this is the evaluator, which reads all.
        alike = "ps" not in cluster and kind in ("chief", "worker")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # TensorFlow's strategy reports what is wrong with it
    return (index if "index" in task else "index", count) if alike and count > 1 else None


def _task(cluster: Mapping[str, Any], kind: str, number: int) -> tuple[int, int]:
    """Number of a task among the workers of ``cluster``, and their count.

    If there is a chief, it is worker 0.
    """
    chiefs, workers = len(cluster.get("chief", ())), len(cluster.get("worker", ()))
    return int(number) + (chiefs if kind == "worker" else 0), chiefs + workers


def _tensorflow_for_tpu() -> bool:
    """Whether TensorFlow may be using the TPU chips here: one of its processes feeds all hosts."""
    try:
        return "tensorflow" in sys.modules and bool(version("tensorflow-tpu"))
    except PackageNotFoundError:
        return False


def _torch_host() -> Host | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    count = distributed.get_world_size()
    return Host(distributed.get_rank(), count, count)
