"""Test program: one of several processes of JAX without Keras.

Arguments and output as ``jax_process.py``.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import shardfeed


def main(dataset: Path, port: int, count: int, number: int) -> dict[str, Any]:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", count, number)
    warnings.simplefilter("ignore")  # evaluation is padded
    evaluate: dict[str, Any] = {"training": False, "batch_size": 6 * count}
    arrays = shardfeed.array_batches(dataset, "train", **evaluate)
    seen = {"array_batches": numbers(arrays, dataset)}
    loaded = shardfeed.load(dataset, "train", **evaluate)
    return {**seen, "load": numbers(loaded.as_numpy_iterator(), dataset), "hosts": shardfeed.detect_accelerator().hosts}


def numbers(batches: Iterable[Any], dataset: Path) -> list[int]:
    """Numbers of the records in ``batches``, by their pixels."""
    with np.load(dataset.parent / "train.npz") as arrays:
        known = {pixels.tobytes(): i for i, pixels in enumerate(arrays["pixels"])}
    return [known[x.tobytes()] for images, _, weights in batches for x in images[weights > 0]]


print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2].partition(",")[0]), *map(int, sys.argv[3:]))))
