"""Test program: prints, as JSON, Keras' version and what of it is not as ``shardfeed.fit`` needs it.

It looks at names and at the source of ``fit``, and trains nothing. So it runs on any backend, and
on a Keras that is too old for the other packages here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import types
from collections.abc import Iterator
from pathlib import Path

import keras
from keras.src.random.seed_generator import global_seed_generator

from shardfeed.resuming.fit import _KERAS_ON_JAX
from shardfeed.resuming.keras_state import _KEPT

VERSION = tuple(map(int, keras.__version__.split(".")[:2]))

# The calls in Keras' ``fit`` that ``_Keeper`` and ``_Callbacks`` count on, in their order: metrics
# are reset before an epoch begins, ``train_function`` draws the batches itself (on PyTorch it is given
# them), and so on.
CALLS = [
    r"isinstance\(callbacks, callbacks_module\.CallbackList\)",
    r"self\.make_train_function\(\)",
    r"callbacks\.on_train_begin\(\)",
    r"in range\((self\._initial_epoch or )?initial_epoch, epochs\)",
    r"self\.reset_metrics\(\)",
    r"callbacks\.on_epoch_begin\(epoch\)",
    r"callbacks\.on_train_batch_begin\(",
    r"self\.train_function\((data|(state, )?iterator)\)",
    r"callbacks\.on_train_batch_end\(",
    r"self\.evaluate\(.*callbacks=callbacks",
    r"callbacks\.on_epoch_end\(epoch, ",
    r"if self\.stop_training:\s+break",
    r"callbacks\.on_train_end\(",
]


def names_in(code: types.CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*map(names_in, inner))


def used_by(owner: type) -> set[str]:
    """Names that the methods of a class and of its bases use."""
    functions = [value for each in owner.__mro__ for value in vars(each).values() if inspect.isfunction(value)]
    return {name for function in functions for name in (*names_in(function.__code__), function.__name__)}


def wrong_in_fit(backend: str) -> Iterator[str]:
    """The calls that are not where they should be."""
    text = (Path(keras.__file__).parent / "src" / "backend" / backend / "trainer.py").read_text()
    (fit,) = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == "fit"]
    source, at = ast.get_source_segment(text, fit) or "", 0
    for call in CALLS:
        found = re.compile(call, re.DOTALL).search(source, at)
        if found is None:
            yield f"{backend}: fit does not come to {call}"
        else:
            at = found.start()


def wrong() -> Iterator[str]:
    """What is missing, by who needs it."""
    if not hasattr(global_seed_generator().state, "assign"):
        yield "keras_state: global_seed_generator().state"
    for owner, names in _KEPT.items():
        for name in {*names} - used_by(owner):
            yield f"keras_state: {owner.__name__}.{name}"
    for name in {"monitor_op", "_set_monitor_op"} - used_by(keras.callbacks.EarlyStopping):
        yield f"keras_state: EarlyStopping.{name}"

    parameters = inspect.signature(keras.callbacks.CallbackList.__init__).parameters
    for name in {"callbacks", "add_history", "add_progbar", "model", "params"} - {*parameters}:
        yield f"fit: CallbackList({name})"
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for name in (
        "compute_loss", "compute_metrics", "get_metrics_result", "loss", "metrics_variables", "optimizer", "reset_metrics",
        "steps_per_execution", "stop_training", "train_function", "variables",
    ):  # fmt: skip
        if not hasattr(model, name):
            yield f"fit: Model.{name}"
    for name in ("built", "get_config", "learning_rate", "variables"):
        if not hasattr(model.optimizer, name):
            yield f"fit: Optimizer.{name}"
    if "inner_optimizer" not in used_by(keras.optimizers.LossScaleOptimizer):
        yield "fit: LossScaleOptimizer.inner_optimizer"

    yield from wrong_in_fit("tensorflow")
    yield from wrong_in_fit("torch")
    if VERSION >= _KERAS_ON_JAX:
        yield from wrong_in_fit("jax")
        library = importlib.import_module("keras.src.distribution.distribution_lib")
        for name in {"devices", "auto_shard_dataset"} - {*inspect.signature(library.DataParallel.__init__).parameters}:
            yield f"accelerator/detect: DataParallel({name})"
        for name in {"batch_dim_name", "device_mesh", "auto_shard_dataset"} - {*dir(library.DataParallel)}:
            yield f"accelerator/devices: DataParallel.{name}"
        for name in {"shape", "axis_names"} - {*dir(library.DeviceMesh)}:
            yield f"accelerator/devices: DeviceMesh.{name}"


print(json.dumps({"version": keras.__version__, "wrong": sorted(wrong())}))
