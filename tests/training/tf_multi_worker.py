"""Test program: one of several workers of a MultiWorkerMirroredStrategy.

Arguments and output as ``jax_process.py``.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import shardfeed
from shardfeed.accelerator.hosts import find_host


def main(dataset: str, ports: list[str], number: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")  # evaluation is padded
    workers = [f"127.0.0.1:{port}" for port in ports]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": number}})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    info = shardfeed.info(dataset)
    outside = shardfeed.detect_accelerator()
    refused = [error(read, info, "train", 6 * len(ports)) for read in (shardfeed.load, shardfeed.array_batches)]
    with strategy.scope():
        inside, host = shardfeed.detect_accelerator(), find_host()
        refused.append(error(shardfeed.fit_args, info, 6 * len(ports), outside))
        (rows, *_) = shardfeed.load(info, "train", 6 * len(ports), as_dict=True).element_spec["image"].shape
    keys, weights = [], []
    for batch in shardfeed.distribute(strategy, info, "validation", 8 * len(ports), as_dict=True):
        # of both workers: they are in step
        weights.append(float(strategy.reduce("SUM", batch["weight"], axis=0)))
        real = strategy.experimental_local_results(batch["weight"])[0].numpy() > 0
        keys += [key.decode() for key in strategy.experimental_local_results(batch["key"])[0].numpy()[real]]
    train = shardfeed.distribute(strategy, info, "train", 6 * len(ports), epochs=1)
    shares = {tuple(strategy.experimental_local_results(x)[0].shape[:1]) for x, _ in train}
    accelerators = {
        "outside": [outside.hosts, outside.replicas, outside.text],
        "inside": [inside.hosts, inside.replicas, inside.text],
        "cut": [host.count, host.replicas],
        "refused": refused,
        "fit_args": shardfeed.fit_args(info, 6 * len(ports), inside),
    }
    return {**accelerators, "rows": rows, "keys": keys, "weights": weights, "shares": sorted(shares)}


def error(call: Callable[..., object], *arguments: object) -> str:
    """What ``call`` refuses, or what it gives."""
    try:
        return str(call(*arguments))
    except shardfeed.UsageError as refusal:
        return str(refusal)


print(json.dumps(main(sys.argv[1], sys.argv[2].split(","), int(sys.argv[4]))))
