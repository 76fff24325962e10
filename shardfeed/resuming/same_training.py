"""Whether a training is the saved one: the same data, arguments and model, on all hosts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from shardfeed._version import __version__
from shardfeed.accelerator.hosts import running_host
from shardfeed.dataset.training_streams import StreamSource
from shardfeed.errors import UsageError, clip
from shardfeed.resuming.state_file import TrainingState
from shardfeed.warning import warn


def training_facts(
    model: Any, source: StreamSource, steps: int, class_weight: Mapping[int, float] | None
) -> dict[str, Any]:
    """What must be the same when a training goes on, and the versions, which should.

    ``steps``: of an epoch. ``class_weight``: as for ``model.fit``.
    """
    backend = keras.config.backend()
    facts = {
        "dataset": source.info.fingerprint,
        "split": source.split,
        "batch_size": source.batch_size,
        "steps_per_execution": int(model.steps_per_execution),
        "steps_per_epoch": steps,
        **source.order,
        **_compiled(model),
        "class_weight": class_weight and {int(one): float(weight) for one, weight in class_weight.items()},
        "backend": backend,
        "processes": running_host().count,
        "versions": {"shardfeed": __version__, "keras": keras.__version__, backend: sys.modules[backend].__version__},
    }
    return dict(json.loads(json.dumps(facts, default=str)))  # as they come back from the file


def _compiled(model: Any) -> dict[str, Any]:
    """The arguments of ``compile`` that change the weights and that no variable shows.

    A learning rate that is a number is a variable: callbacks change it, and the state restores it.
    """
    optimizer, loss = model.optimizer, model.loss
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
    config = _config_of(optimizer)
    if not isinstance(config.get("learning_rate"), dict):  # a schedule is one
        config["learning_rate"] = "a number"
    return {
        "loss": loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__),
        "optimizer": type(optimizer).__name__,
        **{f"loss's {name}": value for name, value in _config_of(loss).items()},
        **{f"optimizer's {name}": value for name, value in config.items()},
    }


def _config_of(part: Any) -> dict[str, Any]:
    """The arguments of a loss or an optimizer; none of a function or of a class that hides them."""
    try:
        return {name: value for name, value in part.get_config().items() if name != "name"}
    except (AttributeError, NotImplementedError):  # of a schedule of the user's own, for one
        return {}


def require_same_training(saved: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Compares the facts of the training that was saved at ``where`` with those of this one.

    Raises:
        UsageError: names what differs. Other versions are only a warning.
    """
    for name, value in now.items():
        if name in ("versions", "processes"):
            if saved.get(name) != value:
                warn(
                    f"resume={clip(where)}: {name} are {value}, before {saved.get(name)}: weights may differ in the last bits."
                )
        elif name in saved and saved[name] != value:  # else a version before this one has saved
            raise UsageError(
                f"resume={clip(where)}: {name} is {clip(value)}, the saved training had {clip(saved[name])}. Restore it, or "
                "give another address."
            )


def require_agreement(saved: TrainingState | None, where: str) -> None:
    """Waits until all hosts have read the state at ``where``; none of them writes before.

    Raises:
        UsageError: they read different ones.
    """
    host = running_host()
    if host.count == 1:
        return
    from jax.experimental import multihost_utils

    place = (-1, -1) if saved is None else (saved.facts["epoch"], saved.facts["step"])
    first, *_ = places = [tuple(map(int, one)) for one in multihost_utils.process_allgather(np.array(place))]
    if places[host.index] != first:
        raise UsageError(
            f"resume={clip(where)}: host {host.index} read {_shown(place)} there, host 0 {_shown(first)}. Give an address "
            "that all hosts share: a bucket, or a folder on a disk that all of them see."
        )


def _shown(place: tuple[int, ...]) -> str:
    return "no state" if place[0] < 0 else f"the state of epoch {place[0]}, step {place[1]}"
