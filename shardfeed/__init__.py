"""Verified TFRecord shards of images, and the reader that feeds them to Keras.

    info = shardfeed.info("gs://bucket/flowers")
    train = shardfeed.load(info, "train", batch_size=128)
    model.fit(train, steps_per_epoch=info.steps_per_epoch("train", 128), epochs=10)

Importing this costs nothing: every name is loaded when it is first used, and TensorFlow only by ``load``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from shardfeed._version import __version__

if TYPE_CHECKING:
    from shardfeed import testing
    from shardfeed.accelerator import Accelerator, detect_accelerator
    from shardfeed.array_batches import ArrayBatches, array_batches
    from shardfeed.benchmark_result import Benchmark
    from shardfeed.benchmarking import benchmark
    from shardfeed.dataset_info import DatasetInfo, SplitInfo, info
    from shardfeed.distribution import distribute, input_fn
    from shardfeed.errors import DatasetError, IncompleteError, ShardfeedError, UsageError
    from shardfeed.explain import explain_errors
    from shardfeed.fitting import compile_args, fit_args
    from shardfeed.gcs_tuning import tune_gcs
    from shardfeed.load import load
    from shardfeed.storage.base import StorageError
    from shardfeed.verify import verify

__all__ = [
    "Accelerator",
    "ArrayBatches",
    "Benchmark",
    "DatasetError",
    "DatasetInfo",
    "IncompleteError",
    "ShardfeedError",
    "SplitInfo",
    "StorageError",
    "UsageError",
    "__version__",
    "array_batches",
    "benchmark",
    "compile_args",
    "detect_accelerator",
    "distribute",
    "explain_errors",
    "fit_args",
    "info",
    "input_fn",
    "load",
    "testing",
    "tune_gcs",
    "verify",
]

_HOMES = {
    "Accelerator": "accelerator",
    "ArrayBatches": "array_batches",
    "Benchmark": "benchmark_result",
    "DatasetError": "errors",
    "DatasetInfo": "dataset_info",
    "IncompleteError": "errors",
    "ShardfeedError": "errors",
    "SplitInfo": "dataset_info",
    "StorageError": "storage.base",
    "UsageError": "errors",
    "array_batches": "array_batches",
    "benchmark": "benchmarking",
    "compile_args": "fitting",
    "detect_accelerator": "accelerator",
    "distribute": "distribution",
    "explain_errors": "explain",
    "fit_args": "fitting",
    "info": "dataset_info",
    "input_fn": "distribution",
    "load": "load",
    "tune_gcs": "gcs_tuning",
    "verify": "verify",
}


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("shardfeed.testing")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            f"shardfeed.{name} needs tensorflow, which is not installed here: pip install 'shardfeed[tf]'"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps ``shardfeed.load`` the function: importing the submodule ``shardfeed.load`` would put the module there."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
