"""An epoch from a bucket that is 50 ms and 1 Gbit/s away, against the same epoch from the disk.

The bucket (``slow_store.py``) has a core of its own, and each reader has the other cores, also when
it reads from the disk. Epochs alternate, each in a process of its own; a line per reader has the
median of the pairs' ratios. ``first`` is the time to the first batch behind the imports.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import build, link_copies, median, photos_parser, where

_BATCH = 128
_ALL = sorted(os.sched_getaffinity(0))


def epoch(reader: str, dataset: str) -> None:
    """Reads one epoch; prints seconds to the first batch, then images per second from the call on."""
    import shardfeed

    if reader == "load":
        import tensorflow as tf

        next(tf.data.Dataset.range(8).map(lambda i: i + 1).batch(8).as_numpy_iterator())
    began = time.perf_counter()
    if reader == "load":
        stream = iter(shardfeed.load(dataset, "train", _BATCH, epochs=1).as_numpy_iterator())
    else:
        stream = iter(shardfeed.array_batches(dataset, "train", _BATCH, epochs=1))
    next(stream)
    first, images = time.perf_counter() - began, _BATCH
    for batch in stream:
        images += len(batch[0])
    print(first, images / (time.perf_counter() - began))


def _measured(reader: str, dataset: str, env: dict[str, str]) -> tuple[float, float]:
    command = [sys.executable, __file__, "--epoch", reader, dataset]
    cores = set(_ALL[1:]) or set(_ALL)
    ran = subprocess.run(
        command,
        env={**os.environ, **env, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    first, rate = ran.stdout.split()[-2:]
    return float(first), float(rate)


def main() -> None:
    """Prints a line per reader."""
    parser = photos_parser(__doc__)
    parser.add_argument("--copies", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--readers", nargs="+", default=["array_batches", "load"])
    parser.add_argument("--epoch", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(sys.argv[1:] if "--epoch" not in sys.argv else [*sys.argv[1:], "--photos", "."])
    if args.epoch:
        epoch(*args.epoch)
        return
    print(where())
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        dataset = Path(work) / "bucket"
        build(link_copies(args.photos, Path(work) / "photos", args.copies), dataset)
        store = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("slow_store.py")), str(dataset)],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {_ALL[0]}),
        )
        assert store.stdout is not None
        env = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{store.stdout.readline().strip()}"}
        try:
            for reader in args.readers:
                pairs = [
                    (_measured(reader, str(dataset), {}), _measured(reader, "gs://bucket", env))
                    for _ in range(args.pairs)
                ]
                ratios = sorted(far[1] / near[1] for near, far in pairs)
                firsts = [median([pair[side][0] for pair in pairs]) for side in (0, 1)]
                print(
                    f"{reader}: {median(ratios):.3f} of the disk ({ratios[0]:.3f} to {ratios[-1]:.3f}); goal 0.9; "
                    f"{median([near[1] for near, _ in pairs]):,.0f} and {median([far[1] for _, far in pairs]):,.0f} images/s; "
                    f"first batch {firsts[0]:.2f} s and {firsts[1]:.2f} s",
                    flush=True,
                )
        finally:
            store.terminate()
            store.wait()


if __name__ == "__main__":
    main()
