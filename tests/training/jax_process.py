"""Test program: one of several processes of JAX.

``python jax_process.py DATASET PORTS COUNT NUMBER`` prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main(dataset: str, port: int, count: int, number: int) -> dict[str, Any]:
    os.environ["XLA_FLAGS"] += f" --xla_force_host_platform_device_count={8 // count}"

    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", count, number)

    import numpy as np

    import shardfeed
    from tests.training.exactness import BATCH, evaluate, load_quietly, tiny_model, truth

    accelerator = shardfeed.detect_accelerator()
    info = shardfeed.info(dataset)
    arrays = {split: np.load(os.path.join(dataset, "..", f"{split}.npz")) for split in info.splits}

    numbers = {pixels.tobytes(): i for i, pixels in enumerate(arrays["train"]["pixels"])}
    train = shardfeed.load(info, "train", BATCH)
    first = train.take(-(-info.splits["train"].num_records // BATCH))
    stream = [numbers[pixels.tobytes()] for images, _ in first.as_numpy_iterator() for pixels in images]

    model = tiny_model(**shardfeed.compile_args(info, BATCH, accelerator))
    exact = truth(model, **arrays["validation"])
    evaluated = evaluate(model, load_quietly(info, "validation", BATCH))
    model.fit(train, verbose=0, shuffle=False, **shardfeed.fit_args(info, BATCH, accelerator))
    return {
        "accelerator": [accelerator.replicas, accelerator.hosts, accelerator.text],
        "stream": stream,
        "truth": exact,
        "evaluated": evaluated,
        "trained": np.concatenate([weight.ravel() for weight in model.get_weights()]).tolist(),
    }


print(json.dumps(main(sys.argv[1], int(sys.argv[2].partition(",")[0]), *map(int, sys.argv[3:]))))
