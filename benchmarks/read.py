"""How fast ``shardfeed.load`` reads, as ratios to limits measured in the same run.

The dataset is built from the photos.

rate      images per second, twice: load / a graph that only decodes, from memory, with the same
          chunk, options and dct_method; and load / the usual graph of tutorials (one map call per
          image, AUTOTUNE). Paired rounds, medians of the ratios.
arrays    the same for ``array_batches``: against the same decoder on as many threads, from memory,
          and against ``load``
first     seconds from an imported TensorFlow to the first batch, in a process of its own
memory    resident MB above TensorFlow's own at the end of each of three epochs, and the peak, in a
          process of its own
boundary  longest wait for a batch at 60 % of the rate measured before: at the ends of the first two
          epochs / elsewhere
resume    seconds from load(start_step=10,000) to its batch in an epoch of 1.6 M records. These are
          the photos' records many times over: one shard file under many names, with a manifest as
          long as a real one's.
fit       share of a step's time that reading costs, for a tiny and a small CNN: against the same
          steps on one batch that stays in memory
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import build, median, photos_parser, where

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BATCH = 128
SETTLE = 0.5  # of a measurement's time again before it, untimed: what was read ahead in the pause is used up
BUFFER_MB = 64  # shuffle_buffer of the memory's measurement
CONSUMER = 0.6  # of the reader's rate: the accelerator that the boundary's measurement plays
RECORDS = 1_600_000
START_STEP = 10_000


def rate(dataset: Path, args: argparse.Namespace) -> None:
    import shardfeed

    info = shardfeed.info(dataset)
    streams = {
        "limit": _decode_only(info),
        "load": shardfeed.load(info, "train", BATCH).as_numpy_iterator(),
        "tutorial": _tutorial(info),
    }
    _compare(streams, "load", {"limit": 0.88, "tutorial": 1.3}, args)


def _compare(streams: dict[str, Iterator[Any]], what: str, goals: dict[str, float], args: argparse.Namespace) -> None:
    rounds = [
        {name: _images_a_second(stream, args.seconds) for name, stream in streams.items()} for _ in range(args.rounds)
    ]
    for name in streams:
        print(f"{name}: {median([one[name] for one in rounds]):,.0f} images/s (median of {args.rounds})")
    for other, goal in goals.items():
        ratios = sorted(one[what] / one[other] for one in rounds)
        print(f"{what} / {other}: {median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}); goal {goal}")


def arrays(dataset: Path, args: argparse.Namespace) -> None:
    import shardfeed

    info = shardfeed.info(dataset)
    streams = {
        "limit": _decode_only_arrays(info),
        "array_batches": iter(shardfeed.array_batches(info, "train", BATCH)),
        "load": shardfeed.load(info, "train", BATCH).as_numpy_iterator(),
    }
    _compare(streams, "array_batches", {"limit": 0.90, "load": 0.80}, args)


def _decode_only_arrays(info: Any) -> Iterator[Any]:
    import numpy as np

    from shardfeed.arrays.parsing import image_and_class
    from shardfeed.decoding import image_decoder

    decode, threads = image_decoder(info.manifest.image.format), len(os.sched_getaffinity(0))
    images = [image_and_class(record)[0] for record in _records(info)]

    def batch(number: int) -> Any:
        pixels = np.empty((BATCH, *info.image_shape), np.uint8)
        for place in range(BATCH):
            decode(images[(number * BATCH + place) % len(images)], info.image_shape, pixels[place])
        return pixels

    with ThreadPoolExecutor(threads) as pool:
        waiting = deque(pool.submit(batch, number) for number in range(threads + 2))
        for number in itertools.count(threads + 2):
            yield waiting.popleft().result()
            waiting.append(pool.submit(batch, number))


def _records(info: Any) -> list[bytes]:
    from shardfeed.format import tfrecord

    found: list[bytes] = []
    for shard in info.splits["train"].shards:
        with open(f"{info.url}/{shard.file}", "rb") as file:
            found += [data for _, data in tfrecord.scan(file)]
        if len(found) >= 4096:
            break
    return found[:4096]


def _images_a_second(stream: Iterator[Any], seconds: float, batch: int = BATCH) -> float:
    began = time.perf_counter()
    while time.perf_counter() - began < SETTLE * seconds:
        next(stream)
    images, began = 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < seconds:
        next(stream)
        images += batch
    return images / taken


def _decode_only(info: Any) -> Iterator[Any]:
    import tensorflow as tf

    from shardfeed.tfdata import batching
    from shardfeed.tfdata.decode import DecodeOptions, chunk_decoder

    decode = chunk_decoder(info.manifest.image, DecodeOptions(None))
    chunks = (
        tf.data.Dataset.from_tensor_slices(_records(info))
        .repeat()
        .batch(batching.RECORDS_PER_CALL, drop_remainder=True)
    )
    decoded = chunks.map(
        lambda records: tuple(decode(records, None).values()), num_parallel_calls=batching.threads(), deterministic=True
    )
    return batching.with_options(decoded.prefetch(2)).as_numpy_iterator()


def _tutorial(info: Any) -> Iterator[Any]:
    import tensorflow as tf

    height, width, channels = info.image_shape

    def read(record: Any) -> Any:
        features = {"image": tf.io.FixedLenFeature([], tf.string), "class": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        image = tf.reshape(tf.io.decode_jpeg(example["image"], channels=channels), [height, width, channels])
        return image, tf.cast(example["class"], tf.int32)

    options = tf.data.Options()
    options.deterministic = False
    files = tf.data.Dataset.list_files(f"{info.url}/train-*.tfrecord")
    records = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE).with_options(options)
    images = records.map(read, num_parallel_calls=tf.data.AUTOTUNE).repeat().shuffle(2048)
    return images.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def first(dataset: Path, args: argparse.Namespace) -> None:
    import tensorflow  # noqa: F401

    began = time.perf_counter()
    import shardfeed

    next(shardfeed.load(dataset, "train", BATCH).as_numpy_iterator())
    print(f"first batch: {time.perf_counter() - began:.2f} s after TensorFlow's import; goal 2")


def memory(dataset: Path, args: argparse.Namespace) -> None:
    import tensorflow as tf

    import shardfeed

    info = shardfeed.info(dataset)
    next(tf.data.Dataset.range(8).map(lambda i: i + 1).batch(8).as_numpy_iterator())
    own, peak, ends = _resident_mb(), 0.0, []
    stream = shardfeed.load(info, "train", BATCH, shuffle_buffer=f"{BUFFER_MB}MB").as_numpy_iterator()
    for _ in range(3):
        for _ in range(info.steps_per_epoch("train", BATCH)):
            next(stream)
            peak = max(peak, _resident_mb() - own)
        ends.append(_resident_mb() - own)
    goal = 2 * BUFFER_MB + 400
    print(
        f"memory above TensorFlow's own {own:.0f} MB, shuffle_buffer {BUFFER_MB} MB, split of "
        f"{info.splits['train'].bytes / 1e6:.0f} MB: peak {peak:.0f} MB, at the ends of epochs "
        f"{', '.join(f'{end:.0f}' for end in ends)} MB; goal {goal}"
    )


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def boundary(dataset: Path, args: argparse.Namespace) -> None:
    import shardfeed

    info = shardfeed.info(dataset)
    batch = 32
    steps = info.steps_per_epoch("train", batch)
    # Four windows an epoch, so that most of what is seen are their ends.
    options = {"shuffle_buffer": info.splits["train"].bytes // 4}
    rate = _images_a_second(shardfeed.load(info, "train", batch, **options).as_numpy_iterator(), args.seconds, batch)
    step_seconds = batch / (CONSUMER * rate)
    stream = shardfeed.load(info, "train", batch, **options).as_numpy_iterator()
    next(stream)
    ends, inside = [0.0], [0.0]
    for step in range(1, 2 * steps + 8):
        time.sleep(step_seconds)
        began = time.perf_counter()
        next(stream)
        (ends if step > 8 and step % steps < 8 else inside).append(time.perf_counter() - began)
    print(
        f"longest wait at {step_seconds * 1e3:.1f} ms a step, {CONSUMER:.0%} of {rate:,.0f} images/s: "
        f"{max(ends) * 1e3:.1f} ms in the 8 steps after an epoch's end, {max(inside) * 1e3:.1f} ms elsewhere: "
        f"{max(ends) / max(inside):.2f}; limit 2"
    )


def resume(dataset: Path, args: argparse.Namespace) -> None:
    import shardfeed

    with tempfile.TemporaryDirectory(dir=dataset.parent) as folder:
        info = shardfeed.info(_many_times(dataset, Path(folder), args.records))
        records, shards = info.splits["train"].num_records, len(info.splits["train"].shards)
        start = min(START_STEP, info.steps_per_epoch("train", BATCH) - 1)
        next(shardfeed.load(info, "train", BATCH).as_numpy_iterator())  # TensorFlow's own first call
        for step in (0, start):
            began = time.perf_counter()
            next(shardfeed.load(info, "train", BATCH, start_step=step).as_numpy_iterator())
            print(
                f"step {step:,} of an epoch of {records:,} records in {shards} shards: "
                f"{time.perf_counter() - began:.2f} s; goal 1"
            )


def _many_times(dataset: Path, folder: Path, records: int) -> Path:
    """The training split's shards under so many names that there are ``records`` of them."""
    from shardfeed.format.manifest import parse_manifest
    from shardfeed.format.naming import MANIFEST, shard_name

    manifest = parse_manifest((dataset / MANIFEST).read_bytes(), MANIFEST)
    split = manifest.splits["train"]
    times = -(-records // split.records)
    count = times * len(split.shards)
    shards = tuple(
        dataclasses.replace(split.shards[number % len(split.shards)], file=shard_name("train", number, count))
        for number in range(count)
    )
    for number, shard in enumerate(shards):
        os.symlink(dataset / split.shards[number % len(split.shards)].file, folder / shard.file)
    counts = {name: number * times for name, number in split.class_counts.items()}
    longer = dataclasses.replace(
        split, records=split.records * times, bytes=split.bytes * times, class_counts=counts, shards=shards
    )
    total = longer.records + sum(manifest.rejected.values()) + sum(manifest.skipped.values())
    manifest = dataclasses.replace(manifest, splits={"train": longer}, written=longer.records, listed=total, files=())
    (folder / MANIFEST).write_bytes(manifest.to_json())
    return folder


def fit(dataset: Path, args: argparse.Namespace) -> None:
    import shardfeed

    info = shardfeed.info(dataset)
    steps = min(info.steps_per_epoch("train", BATCH), args.steps)
    _fit(info, "a tiny CNN", [(8, 4), (16, 2)], steps)
    # Layers as wide as usual: the model, not the reading, is what takes the time, as on an
    # accelerator that is kept busy.
    _fit(info, "a small CNN", [(32, 2), (64, 1), (128, 2)], min(steps, 6))


def _fit(info: Any, what: str, layers: list[tuple[int, int]], steps: int) -> None:
    """``layers``: filters and strides of its convolutions."""
    import keras
    import tensorflow as tf

    import shardfeed

    model = keras.Sequential(
        [
            keras.Input(info.image_shape, dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            *(keras.layers.Conv2D(filters, 3, strides=strides, activation="relu") for filters, strides in layers),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(len(info.classes)),
        ]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    read = shardfeed.load(info, "train", BATCH)
    kept = tf.data.Dataset.from_tensors(next(iter(read))).repeat()

    ends: list[float] = []
    clock = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: ends.append(time.perf_counter()))

    def step_seconds(batches: Any) -> float:
        ends.clear()
        model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[clock])
        return (ends[-1] - ends[0]) / (
            len(ends) - 1
        )  # without the start of an epoch, which copies the batch that is kept

    step_seconds(kept)  # traces the step
    rounds = [(step_seconds(kept), step_seconds(read)) for _ in range(3)]
    shares = sorted(1 - alone / reading for alone, reading in rounds)
    step = median([reading for _, reading in rounds]) * 1e3
    print(
        f"fit of {what}: {step:.0f} ms a step of {BATCH} on the CPU, which also decodes; reading is {median(shares):.1%} of it "
        f"({shares[0]:.1%} to {shares[-1]:.1%})"
    )


PARTS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "rate": rate,
    "arrays": arrays,
    "first": first,
    "memory": memory,
    "boundary": boundary,
    "resume": resume,
    "fit": fit,
}


def main() -> None:
    """Builds the dataset, then runs each part in a process of its own."""
    parser = photos_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=9, help="paired rounds of rate")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds a measurement in a round")
    parser.add_argument("--steps", type=int, default=10**9, help="steps of fit's epoch at most")
    parser.add_argument("--records", type=int, default=RECORDS, help="records in resume's epoch")
    parser.add_argument("--dataset", type=Path, help="a dataset that is built already; run --part in this process")
    args = parser.parse_args()
    if args.dataset is not None:
        PARTS[args.part](args.dataset.resolve(), args)
        return
    print(where())
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        many, one = Path(work) / "many", Path(work) / "one"
        made = build(args.photos, many)
        build(args.photos, one, "--num_shards", "1")
        print(
            f"{json.loads(made.output.splitlines()[-1]).get('written', '?')} records of 224 x 224 in 16 shards",
            flush=True,
        )
        options = [f"--{name}={getattr(args, name)}" for name in ("photos", "rounds", "seconds", "steps", "records")]
        for part in PARTS if args.part == "all" else [args.part]:
            dataset = one if part == "resume" else many
            args_of_part = [*options, "--part", part, "--dataset", str(dataset)]
            ran = subprocess.run([sys.executable, __file__, *args_of_part], capture_output=True, text=True)
            print(ran.stdout.strip() if not ran.returncode else f"{part} failed:\n{ran.stderr}", flush=True)


if __name__ == "__main__":
    main()
