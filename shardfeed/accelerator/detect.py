"""``detect_accelerator``: the best device that Keras' backend can use: TPU, else GPUs, else CPU.

Only the framework that Keras runs on is asked. A TPU, and a GPU's memory, belong to one framework
at a time, so under ``KERAS_BACKEND=jax`` TensorFlow, which then only reads, never uses them. Only
this machine's TPU is started. A TPU on another machine is used if its strategy is in scope.

Not needed to train on one GPU or on the CPU; ``load`` works without it.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardfeed.accelerator.devices import check_keras, keras_backend, tpu_chips
from shardfeed.accelerator.hosts import one_of_several, running_host
from shardfeed.errors import UsageError, clip
from shardfeed.warning import warn
from shardfeed.words import plural


@dataclass(frozen=True)
class Accelerator:
    """What ``detect_accelerator`` found.

    Attributes:
        kind: "tpu", "gpu" or "cpu".
        replicas: Copies of the model that share one batch, over all hosts.
        backend: Keras' backend, "tensorflow" or "jax".
        text: What was found, and why nothing better.
        strategy: TensorFlow's strategy; on JAX Keras' distribution, None for a single device.
        hosts: Machines, or processes, that each read a share of the batch: those that ``load``
            reads for.
    """

    kind: str
    replicas: int
    backend: str
    text: str
    strategy: Any = field(repr=False, compare=False)
    hosts: int = 1

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where models are built and compiled: ``with accelerator.scope(): ...``."""
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    def __str__(self) -> str:
        return self.text


_last: Accelerator | None = None  # of ``detect_accelerator`` in this process


def detect_accelerator() -> Accelerator:
    """The best device this process can train on: TPU, else GPUs, else CPU.

    A ``tf.distribute`` strategy in scope, or a distribution that was set for Keras on JAX, is
    kept. Otherwise on JAX all devices become a data-parallel distribution that leaves reading to
    ``load`` (``auto_shard_dataset=False``). Without one, ``fit`` repeats the whole batch on each
    device.

    Warns:
        UserWarning: this machine has better hardware than can be used; the text names what to
            install.

    Raises:
        ImportError: Keras is not installed.
        UsageError: Keras runs on another backend than TensorFlow or JAX, or is too old for several
            devices of JAX; or JAX, TensorFlow and PyTorch disagree about the hosts.
    """
    try:
        import keras
    except ModuleNotFoundError as error:
        if error.name != "keras":
            raise
        raise ImportError(
            "shardfeed.detect_accelerator needs keras, which is not installed here: pip install 'shardfeed[tf]', or keras and jax"
        ) from error

    global _last
    backend = keras_backend()
    if backend not in ("jax", "tensorflow"):
        raise UsageError(
            f"Keras runs on {clip(backend)}: expected tensorflow or jax. Set KERAS_BACKEND before Keras is imported."
        )
    _last = _on_jax(keras) if backend == "jax" else _on_tensorflow()
    return _last


def current_accelerator() -> Accelerator:
    """What ``detect_accelerator`` gave last; before its first call, what is in scope here.

    It starts no device.
    """
    if _last is not None:
        return _last
    here, backend = running_host(), keras_backend() or "tensorflow"
    tensorflow = sys.modules.get("tensorflow")
    if backend == "tensorflow" and tensorflow is not None and tensorflow.distribute.has_strategy():
        return _on_tensorflow()
    return Accelerator("cpu", here.replicas, backend, "", None, here.count)


def _on_jax(keras: Any) -> Accelerator:
    import jax

    devices = jax.devices()
    kind = devices[0].platform if devices[0].platform in ("cpu", "tpu") else "gpu"
    if kind == "gpu":
        hide_gpus_from_tensorflow()
    if len(devices) > 1:
        check_keras(keras)
    distribution = keras.distribution.distribution()
    if distribution is None and len(devices) > 1:
        distribution = keras.distribution.DataParallel(
            devices=keras.distribution.list_devices(), auto_shard_dataset=False
        )
        keras.distribution.set_distribution(distribution)
    framework = f"JAX {jax.__version__}"
    why = "" if kind == "tpu" else _unused_hardware(kind, framework, "'jax[tpu]'", "'jax[cuda12]'")
    if kind == "cpu":
        why = why or f"{framework} sees no TPU and no GPU."
    here = running_host()
    return _accelerator(kind, "jax", distribution, here.replicas, here.count, why=why)


def _on_tensorflow() -> Accelerator:
    import tensorflow as tf

    here = running_host()
    gpus = tf.config.list_physical_devices("GPU")
    if tf.distribute.has_strategy():
        strategy = tf.distribute.get_strategy()
        kind = "tpu" if isinstance(strategy, tf.distribute.TPUStrategy) else "gpu" if gpus else "cpu"
        # an alias of another name
        several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        name = "MultiWorkerMirroredStrategy" if several else type(strategy).__name__
        scope = f" of {name}, which is in scope"
        return _accelerator(kind, "tensorflow", strategy, here.replicas, here.count, scope=scope)
    strategy, why = _tensorflow_tpu(tf)
    if strategy is not None:
        kind = "tpu"
    else:
        kind = "gpu" if gpus else "cpu"
        strategy = tf.distribute.MirroredStrategy() if len(gpus) > 1 else tf.distribute.get_strategy()
        framework = f"TensorFlow {tf.__version__}"
        # tensorflow-tpu ends with 2.20; JAX supports the TPUs of today.
        for_tpu = "'tensorflow-tpu<=2.20', or run on KERAS_BACKEND=jax with 'jax[tpu]' and tensorflow-cpu"
        unused = _unused_hardware(kind, framework, for_tpu, "'tensorflow[and-cuda]'")
        why = unused or (f"{framework} sees no GPU. {why}" if kind == "cpu" else why)
        if not tpu_chips():  # ``unused`` names chips already
            why = f"{one_of_several()} {why}".strip()
    return _accelerator(kind, "tensorflow", strategy, strategy.num_replicas_in_sync, here.count, why=why)


def _accelerator(
    kind: str, backend: str, strategy: Any, replicas: int, hosts: int, *, scope: str = "", why: str = ""
) -> Accelerator:
    where = f" on {hosts} hosts" if hosts > 1 else ""
    text = f"{kind.upper()}, {plural(replicas, 'replica')}{where}{scope}. {why}".rstrip()
    return Accelerator(kind, replicas, backend, text, strategy, hosts)


def _tensorflow_tpu(tf: Any) -> tuple[Any, str]:
    """TPUStrategy of this machine's chips or None, and why there is none."""
    if not tpu_chips():
        return None, "No TPU chip is in this machine."
    try:
        # TPU_NAME is only a label here
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver), ""
    except (ValueError, tf.errors.OpError) as error:
        return None, f"The TPU did not start: {clip(str(error).strip().partition(chr(10))[0])}"


def _unused_hardware(kind: str, framework: str, for_tpu: str, for_gpu: str) -> str:
    """What this machine has that is better than ``kind``, with the remedy: what to install.

    Warns, because idle hardware costs money.
    """
    if chips := tpu_chips():
        text = f"This machine has TPU chips ({chips}), but {framework} here has no TPU kernels: pip install {for_tpu}."
    elif kind == "cpu" and any(Path("/dev").glob("nvidia[0-9]*")):
        text = f"A GPU is in this machine, but {framework} here cannot use it: pip install {for_gpu}."
    else:
        return ""
    warn(text)
    return text


def hide_gpus_from_tensorflow() -> None:
    """Keep TensorFlow off the GPUs.

    At its first operation it takes all memory of the GPUs it sees, even if it only reads.
    """
    try:
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
    except ModuleNotFoundError:  # array_batches reads without it
        pass
    except RuntimeError:
        warn(
            "Keras does not run on TensorFlow, which has started and holds the memory of the GPUs: call load() or "
            "detect_accelerator() before any operation of TensorFlow."
        )
