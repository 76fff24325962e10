"""Everything in a Keras model and its callbacks that the next training step depends on.

Variables are kept by their order: the same script makes them in the same order. Among them are the
seeds of dropout and augmentation, moving means, the optimizer's moments, its learning rate, the
scale of the loss, and the metrics of the epoch. Keras' own seed generator, from which random
functions without a seed draw, belongs to no model and is kept too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from shardfeed.errors import UsageError, clip
from shardfeed.warning import warn

# What Keras' callbacks keep between batches and epochs.
_KEPT: dict[type, tuple[str, ...]] = {
    keras.callbacks.EarlyStopping: ("wait", "stopped_epoch", "best", "best_weights", "best_epoch"),
    keras.callbacks.ReduceLROnPlateau: ("wait", "cooldown_counter", "best"),
    keras.callbacks.ModelCheckpoint: ("best", "_batches_seen_since_last_saving", "_last_batch_seen", "_current_epoch"),
    keras.callbacks.History: ("history", "epoch"),
}
_KEEP_NOTHING = (
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.LambdaCallback,
    keras.callbacks.ProgbarLogger,
    keras.callbacks.TerminateOnNaN,
    keras.callbacks.CSVLogger,
    keras.callbacks.RemoteMonitor,
    keras.callbacks.TensorBoard,
)

Arrays = Mapping[str, NDArray[Any]]
Kept = Sequence[Mapping[str, Any]]
"""What each callback keeps between steps, by name."""


def build(model: Any, spec: Any) -> None:
    """Makes the variables that Keras makes at the first step: the optimizer's and the metrics'.

    ``spec``: (x, y) or x of the training stream, each with ``shape`` and ``dtype``. One row of
    zeros goes through the model.
    """
    rows = [
        np.zeros((1, *item.shape[1:]), np.dtype(item.dtype.as_numpy_dtype))
        for item in (spec if isinstance(spec, tuple) else (spec,))
    ]
    x, y = (*rows, None)[:2]
    predicted = model(x, training=False)
    if model.loss is not None:  # else the model has a ``train_step`` of its own
        model.compute_loss(x, y, predicted)
    model.compute_metrics(x, y, predicted)
    model.reset_metrics()
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    variables_of(model)  # makes Keras' seed generator, which all hosts of JAX must do together


def variables_of(model: Any) -> list[Any]:
    """The variables that a step reads or writes, each once, in a fixed order."""
    from keras.src.random.seed_generator import global_seed_generator

    every = [*model.variables, *model.optimizer.variables, *model.metrics_variables, global_seed_generator().state]
    return list({id(variable): variable for variable in every}.values())


def kept_by(callbacks: Sequence[Any]) -> Kept:
    """What callbacks keep between steps."""
    return [
        callback.state_dict()
        if hasattr(callback, "state_dict")
        else {name: getattr(callback, name) for name in _KEPT.get(type(callback), ()) if hasattr(callback, name)}
        for callback in callbacks
    ]


def arrays_of(model: Any, kept: Kept) -> dict[str, NDArray[Any]]:
    """Values of ``variables_of`` and of what callbacks keep as arrays, by name."""
    # Not convert_to_numpy, which makes TensorFlow's variables warn of NumPy 2.
    found = {f"variable {i}": np.asarray(one) for i, one in enumerate(variables_of(model))}
    found |= {f"generator {i}": state for i, state in enumerate(generators())}
    for at, values in enumerate(kept):
        for name, value in values.items():
            if _is_arrays(value):
                found |= {f"callback {at} {name} {i}": np.asarray(array) for i, array in enumerate(value)}
    return found


def facts_of(callbacks: Sequence[Any], kept: Kept) -> list[dict[str, Any]]:
    """The class of each callback and what it keeps, as JSON's types; arrays as their number."""
    return [
        {
            "class": type(callback).__name__,
            "state": {name: {"arrays": len(one)} if _is_arrays(one) else _plain(one) for name, one in values.items()},
        }
        for callback, values in zip(callbacks, kept, strict=True)
    ]


def restore_variables(model: Any, arrays: Arrays, where: str) -> None:
    """Gives the model the values of ``arrays_of``.

    Raises:
        UsageError: another model; names the first variable that differs.
    """
    variables = variables_of(model)
    kept = [array for name, array in arrays.items() if name.startswith("variable ")]
    for variable, array in zip(variables, kept, strict=False):
        if tuple(variable.shape) != array.shape:
            raise UsageError(
                f"resume={clip(where)}: {variable.path} has shape {tuple(variable.shape)}, the saved one {array.shape}. "
                "The model or its optimizer is another one. Restore the script, or give another address."
            )
    if len(variables) != len(kept):
        raise UsageError(
            f"resume={clip(where)}: the model and its optimizer have {len(variables)} variables, the saved one {len(kept)}. "
            "Restore the script, or give another address."
        )
    for variable, array in zip(variables, kept, strict=True):
        variable.assign(array)
    restore_generators([array for name, array in arrays.items() if name.startswith("generator ")])


def generators() -> list[NDArray[Any]]:
    """States of PyTorch's generators (CPU, each GPU), from which dropout without a seed draws."""
    if keras.config.backend() != "torch":
        return []
    import torch

    return [state.numpy() for state in (torch.get_rng_state(), *torch.cuda.get_rng_state_all())]


def restore_generators(states: Sequence[NDArray[Any]]) -> None:
    """Gives PyTorch's generators the states that ``generators`` found."""
    if states:
        import torch

        cpu, *gpus = (torch.tensor(state) for state in states)
        torch.set_rng_state(cpu)
        torch.cuda.set_rng_state_all(gpus)


def restore_callbacks(callbacks: Sequence[Any], facts: Sequence[Mapping[str, Any]], arrays: Arrays, where: str) -> None:
    """Gives callbacks what ``facts_of`` and ``arrays_of`` found.

    Raises:
        UsageError: other callbacks than those that were saved.
    """
    names, kept = [type(callback).__name__ for callback in callbacks], [fact["class"] for fact in facts]
    if names != kept:
        raise UsageError(
            f"resume={clip(where)}: callbacks are {', '.join(names)}; the saved training had {', '.join(kept)}. Give the same "
            "ones in the same order, or another address."
        )
    for at, (callback, fact) in enumerate(zip(callbacks, facts, strict=True)):
        values = {
            name: [arrays[f"callback {at} {name} {i}"] for i in range(value["arrays"])]
            if isinstance(value, dict) and "arrays" in value
            else value
            for name, value in fact["state"].items()
        }
        if hasattr(callback, "load_state_dict"):
            callback.load_state_dict(values)
        else:
            if getattr(callback, "monitor_op", ...) is None:  # set at an epoch's end; before Keras 3.8, with ``best``
                callback._set_monitor_op()
            for name, value in values.items():
                setattr(callback, name, value)


def warn_of_forgetful(callbacks: Iterable[Any]) -> None:
    """Warns of callbacks of which nothing is known; one that keeps state has ``state_dict``."""
    for callback in callbacks:
        if not hasattr(callback, "state_dict") and type(callback) not in (*_KEPT, *_KEEP_NOTHING):
            name = clip(type(callback).__name__)
            warn(
                f"{name}: what this callback keeps between steps is not saved. If it keeps anything, give it state_dict() and "
                "load_state_dict(state), of JSON's types or lists of arrays."
            )


def _is_arrays(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, np.ndarray) for item in value)


def _plain(value: Any) -> Any:
    """NumPy's numbers, and a backend's scalars, as Python's."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else np.asarray(value).item()
