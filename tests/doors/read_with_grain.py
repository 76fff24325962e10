"""Reads the dataset that is named in the arguments as Grain's users do; prints what came as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import grain
from absl import flags

import shardfeed


def seen(batches: Any) -> list[str]:
    """Keys in their order; each batch's arrays are checked."""
    keys: list[str] = []
    for batch in batches:
        assert batch["image"].dtype == "uint8" and batch["image"].shape[1:] == (16, 16, 3)
        assert batch["label"].shape == batch["key"].shape == batch["image"].shape[:1]
        keys += batch["key"].tolist()
    return keys


def main() -> None:
    flags.FLAGS.mark_as_parsed()  # Grain's worker processes ask for flags of its own
    ds = shardfeed.records(sys.argv[1], "train", image_size=16, crop="center")
    source = grain.MapDataset.source(ds)
    shuffled = source.seed(1).shuffle().batch(8)
    workers = grain.multiprocessing.MultiprocessingOptions(num_workers=2)
    found = {
        "in order": seen(source.batch(8)),
        "shuffled": seen(shuffled),
        "threads": seen(shuffled.to_iter_dataset()),
        "processes": seen(shuffled.to_iter_dataset().mp_prefetch(workers)),
        "hosts": [seen(source[host::3].batch(8)) for host in range(3)],
        "DataLoader": seen(
            grain.DataLoader(
                data_source=ds,
                sampler=grain.samplers.IndexSampler(len(ds), shuffle=True, num_epochs=1, seed=1),
                operations=[grain.transforms.Batch(8, drop_remainder=False)],
                worker_count=0,
            )
        ),
    }
    stream = iter(shuffled.to_iter_dataset())
    next(stream)
    state = json.loads(json.dumps(stream.get_state()))
    again = iter(shuffled.to_iter_dataset())
    again.set_state(state)
    found["resumed"] = seen(again)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
