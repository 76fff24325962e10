"""Test program: one of several processes that read a share each with TensorFlow.

Arguments and output as ``jax_process.py``.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import shardfeed


def main(dataset: str, count: int, number: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")  # evaluation is padded
    options: dict[str, Any] = {"host": (number, count), "as_dict": True}
    info = shardfeed.info(dataset)
    train = shardfeed.load(info, "train", 6 * count, seed=5, **options)
    steps = -(-info.splits["train"].num_records // (6 * count))
    evaluated = list(shardfeed.load(info, "validation", 8 * count, **options).as_numpy_iterator())
    return {
        "train": keys(train.take(steps).as_numpy_iterator()),
        "validation": keys(evaluated),
        "batches": len(evaluated),
        "weight": float(sum(batch["weight"].sum() for batch in evaluated)),
    }


def keys(batches: Iterable[Any]) -> list[str]:
    return [key.decode() for batch in batches for key in batch["key"].tolist()]


print(json.dumps(main(sys.argv[1], *map(int, sys.argv[3:]))))
