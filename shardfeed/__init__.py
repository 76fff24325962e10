"""Verified TFRecord shards of images, and the reader that feeds them to Keras.

    info = shardfeed.info("gs://bucket/flowers")
    train = shardfeed.load(info, "train", batch_size=128)
    model.fit(train, steps_per_epoch=info.steps_per_epoch("train", 128), epochs=10)

Importing this costs nothing: each name is loaded at its first use, TensorFlow only by ``load`` and
PyTorch only by ``torch_batches``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardfeed._version import __version__

if TYPE_CHECKING:
    from shardfeed import testing as testing
    from shardfeed.accelerator.detect import Accelerator as Accelerator
    from shardfeed.accelerator.detect import detect_accelerator as detect_accelerator
    from shardfeed.accelerator.keras_args import compile_args as compile_args
    from shardfeed.accelerator.keras_args import fit_args as fit_args
    from shardfeed.arrays.batches import ArrayBatches as ArrayBatches
    from shardfeed.arrays.batches import array_batches as array_batches
    from shardfeed.arrays.torch_batches import TorchBatches as TorchBatches
    from shardfeed.arrays.torch_batches import torch_batches as torch_batches
    from shardfeed.benchmarking.result import Benchmark as Benchmark
    from shardfeed.benchmarking.stream import benchmark as benchmark
    from shardfeed.dataset.info import DatasetInfo as DatasetInfo
    from shardfeed.dataset.info import SplitInfo as SplitInfo
    from shardfeed.dataset.info import info as info
    from shardfeed.errors import DatasetError as DatasetError
    from shardfeed.errors import IncompleteError as IncompleteError
    from shardfeed.errors import ShardfeedError as ShardfeedError
    from shardfeed.errors import UsageError as UsageError
    from shardfeed.random_access.records import Records as Records
    from shardfeed.random_access.records import records as records
    from shardfeed.resuming.fit import fit as fit
    from shardfeed.storage.base import StorageError as StorageError
    from shardfeed.tfdata.distribute import distribute as distribute
    from shardfeed.tfdata.distribute import input_fn as input_fn
    from shardfeed.tfdata.explain_errors import explain_errors as explain_errors
    from shardfeed.tfdata.load import load as load
    from shardfeed.verification.dataset import verify as verify

# The public names, by the module that holds them.
_NAMES = {
    "accelerator.detect": ("Accelerator", "detect_accelerator"),
    "accelerator.keras_args": ("compile_args", "fit_args"),
    "arrays.batches": ("ArrayBatches", "array_batches"),
    "arrays.torch_batches": ("TorchBatches", "torch_batches"),
    "benchmarking.result": ("Benchmark",),
    "benchmarking.stream": ("benchmark",),
    "dataset.info": ("DatasetInfo", "SplitInfo", "info"),
    "errors": ("DatasetError", "IncompleteError", "ShardfeedError", "UsageError"),
    "random_access.records": ("Records", "records"),
    "resuming.fit": ("fit",),
    "storage.base": ("StorageError",),
    "tfdata.distribute": ("distribute", "input_fn"),
    "tfdata.explain_errors": ("explain_errors",),
    "tfdata.load": ("load",),
    "verification.dataset": ("verify",),
}
# What pip installs for a missing module.
_INSTALL = {"keras": "'shardfeed[tf]'", "tensorflow": "'shardfeed[tf]'", "torch": "torch"}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_TORCH = _NAMES["arrays.torch_batches"]  # not in __all__: a star import works without PyTorch
__all__ = ["__version__", "testing", *sorted(_MODULES.keys() - _TORCH)]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("shardfeed.testing")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"shardfeed.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _INSTALL:
            raise
        raise ImportError(
            f"shardfeed.{name} needs {error.name}, which is not installed here: pip install {_INSTALL[error.name]}"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_TORCH])
