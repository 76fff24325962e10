"""Our readers against others' that read the same images, in alternating pairs.

Each contender is a process of its own that reads when it is asked. In a pair, both read for the same
time, one after the other, and the one that begins changes from pair to pair. A line per comparison
has the median of the pairs' ratios, a 90 % interval for the median (by the sign test), and the goal.

The others are installed in an environment of their own, together with this project:

    python -m venv rivals && rivals/bin/pip install . array_record torch torchvision spdl
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from common import build, link_copies, median, photos_parser, where

_SIZE, _BATCH = 224, 128
_CORES = len(os.sched_getaffinity(0))
_SETTLE = 0.25  # of a turn again before it, untimed: what was read ahead in the pause is used up


class Files(NamedTuple):
    """The same images three times: a dataset, a folder per class, and an ArrayRecord file."""

    dataset: Path
    folders: Path
    array_record: Path

    @classmethod
    def below(cls, folder: Path) -> Files:
        return cls(folder / "dataset", folder / "folders", folder / "records.array_record")


# Each contender is an endless iterator of the number of images it has read since its last answer.


def _random_numbers(count: int) -> Iterator[list[int]]:
    """Batches of numbers that were drawn before: only reads are measured."""
    drawn = random.Random(1).choices(range(count), k=1000 * _BATCH)
    return itertools.cycle([drawn[first : first + _BATCH] for first in range(0, len(drawn), _BATCH)])


def _our_single_reads(files: Files) -> Iterator[int]:
    import shardfeed

    ds = shardfeed.records(files.dataset, "train", decode=False)
    for numbers in _random_numbers(len(ds)):
        for number in numbers:
            ds[number]
        yield _BATCH


def _our_reads_of_128(files: Files) -> Iterator[int]:
    import shardfeed

    ds = shardfeed.records(files.dataset, "train", decode=False)
    for numbers in _random_numbers(len(ds)):
        yield len(ds.__getitems__(numbers))


def _array_record(files: Files) -> Any:
    from array_record.python.array_record_module import ArrayRecordReader

    return ArrayRecordReader(str(files.array_record), options="readahead_buffer_size:0")


def _array_record_single_reads(files: Files) -> Iterator[int]:
    reader = _array_record(files)
    for numbers in _random_numbers(reader.num_records()):
        for number in numbers:
            reader.read([number])
        yield _BATCH


def _array_record_reads_of_128(files: Files) -> Iterator[int]:
    reader = _array_record(files)
    for numbers in _random_numbers(reader.num_records()):
        yield len(reader.read(numbers))


def _data_loader(dataset: Any) -> Iterator[int]:
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, _BATCH, shuffle=True, num_workers=_CORES, persistent_workers=True, drop_last=True)
    while True:
        for _ in loader:
            yield _BATCH


def _records_in_data_loader(files: Files) -> Iterator[int]:
    import shardfeed

    return _data_loader(shardfeed.records(files.dataset, "train", columns=["image", "label"]))


def _image_folder_in_data_loader(files: Files) -> Iterator[int]:
    from torchvision.datasets import ImageFolder
    from torchvision.transforms.v2 import PILToTensor

    return _data_loader(ImageFolder(str(files.folders), PILToTensor()))


def _decoding_image_folder_in_data_loader(files: Files) -> Iterator[int]:
    from torchvision.datasets import ImageFolder
    from torchvision.io import decode_image

    return _data_loader(ImageFolder(str(files.folders), loader=decode_image))


def _array_batches(files: Files) -> Iterator[int]:
    import shardfeed

    for images, _ in shardfeed.array_batches(files.dataset, "train", _BATCH):
        yield len(images)


def _spdl(files: Files) -> Iterator[int]:
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    paths = sorted(map(str, files.folders.rglob("*.jpg")))

    def shuffled() -> Iterator[str]:
        draw = random.Random(1)
        while True:
            yield from draw.sample(paths, len(paths))

    def decoded(batch: list[str]) -> Any:
        return spdl.io.to_numpy(spdl.io.load_image_batch(batch, width=None, height=None, pix_fmt="rgb24"))

    pipeline = (
        PipelineBuilder()
        .add_source(shuffled())
        .aggregate(_BATCH)
        .pipe(decoded, concurrency=_CORES)
        .add_sink(3)
        .build(num_threads=_CORES)
    )
    with pipeline.auto_stop():
        for images in pipeline:
            yield len(images)


def _bare_loop(files: Files) -> Iterator[int]:
    """One process per core decodes the folders' first 2,048 files from memory with simplejpeg."""
    paths = sorted(files.folders.rglob("*.jpg"))
    images = [path.read_bytes() for path in random.Random(1).sample(paths, min(2048, len(paths)))]
    done = multiprocessing.get_context("fork").Value("q", 0)

    def decode() -> None:
        import numpy as np
        import simplejpeg

        pixels = np.empty((_BATCH, _SIZE, _SIZE, 3), np.uint8)
        while True:
            for first in range(0, len(images) - _BATCH + 1, _BATCH):
                for place in range(_BATCH):
                    simplejpeg.decode_jpeg(images[first + place], buffer=pixels[place])
                with done:
                    done.value += _BATCH

    for _ in range(_CORES):
        multiprocessing.get_context("fork").Process(target=decode, daemon=True).start()
    before = 0
    while True:
        time.sleep(0.01)
        now = done.value
        yield now - before
        before = now


CONTENDERS: dict[str, Callable[[Files], Iterator[int]]] = {
    "records, single reads": _our_single_reads,
    "ArrayRecord, single reads": _array_record_single_reads,
    "records, reads of 128": _our_reads_of_128,
    "ArrayRecord, reads of 128": _array_record_reads_of_128,
    "DataLoader of records": _records_in_data_loader,
    "DataLoader of ImageFolder": _image_folder_in_data_loader,
    "DataLoader of ImageFolder with torchvision's decoder": _decoding_image_folder_in_data_loader,
    "array_batches": _array_batches,
    "SPDL": _spdl,
    "bare loop": _bare_loop,
}
COMPARISONS = [
    ("records, single reads", "ArrayRecord, single reads", 3.0),
    ("records, reads of 128", "ArrayRecord, reads of 128", 1.0),
    ("DataLoader of records", "DataLoader of ImageFolder", 0.9),
    ("DataLoader of records", "DataLoader of ImageFolder with torchvision's decoder", 0.9),
    ("array_batches", "DataLoader of records", 2.0),
    ("array_batches", "SPDL", 1.2),
    ("array_batches", "bare loop", 0.88),
]


def answer(contender: str, files: Files) -> None:
    """For each line with seconds that comes in, reads for so long and prints the images per second."""
    read = CONTENDERS[contender](files)
    next(read)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        images, began, settled = 0, time.perf_counter(), False
        while (taken := time.perf_counter() - began) < (seconds if settled else _SETTLE * seconds) or not settled:
            if not settled and taken >= _SETTLE * seconds:
                images, began, settled = 0, time.perf_counter(), True
            images += next(read)
        print(images / taken, flush=True)


class Contender:
    """A contender's process, stopped (SIGSTOP) while it is not asked."""

    def __init__(self, name: str, python: str, folder: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, __file__, "--contender", name, "--photos", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            self._next_line()
        except BaseException:
            self.__exit__()
            raise

    def rate(self, seconds: float) -> float:
        assert self._process.stdin is not None
        self._signal("CONT")
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        found = float(self._next_line())
        self._signal("STOP")
        return found

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: object) -> None:
        self._signal("KILL")
        self._process.wait()

    def _signal(self, name: str) -> None:
        os.killpg(self._process.pid, signal.Signals[f"SIG{name}"])

    def _next_line(self) -> str:
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed:\n{self._process.stderr.read()}")
        return line


def interval(values: list[float]) -> tuple[float, float]:
    """The narrowest 90 % interval for the median by the sign test (binomial order statistics)."""
    ordered, count = sorted(values), len(values)
    outside, skipped = 0.0, 0
    while outside + (tail := math.comb(count, skipped) / 2**count) <= 0.05:
        outside, skipped = outside + tail, skipped + 1
    return ordered[max(0, skipped - 1)], ordered[min(count - 1, count - skipped)]


def compare(ours: Contender, theirs: Contender, goal: float, pairs: int, seconds: float) -> None:
    """Prints the line of one comparison."""
    rates: dict[str, list[float]] = {ours.name: [], theirs.name: []}
    for turn in range(pairs):
        for contender in (ours, theirs) if turn % 2 else (theirs, ours):
            rates[contender.name].append(contender.rate(seconds))
    ratios = [mine / other for mine, other in zip(rates[ours.name], rates[theirs.name], strict=True)]
    low, high = interval(ratios)
    print(
        f"{ours.name} / {theirs.name}: {median(ratios):.2f} ({low:.2f} to {high:.2f}); goal {goal}; "
        f"{median(rates[ours.name]):,.0f} and {median(rates[theirs.name]):,.0f} images/s, {pairs} pairs",
        flush=True,
    )


def make_files(photos: Path, copies: int, files: Files, python: str) -> None:
    """Builds the dataset, then the other two from its records, so that all hold the same bytes."""
    import shardfeed

    source = link_copies(photos, files.dataset.parent / "photos", copies)
    build(source, files.dataset, "--image_size", str(_SIZE))
    for item in shardfeed.records(files.dataset, "train", decode=False):
        path = files.folders / item["key"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(item["image"])
    subprocess.run([python, __file__, "--write_array_record", "--photos", str(files.dataset.parent)], check=True)


def write_array_record(files: Files) -> None:
    """The records of the dataset, as they are, one per group: the setting for random access."""
    from array_record.python.array_record_module import ArrayRecordWriter

    from shardfeed.format import tfrecord

    writer = ArrayRecordWriter(str(files.array_record), "group_size:1,uncompressed")
    for shard in sorted(files.dataset.glob("train-*.tfrecord")):
        with open(shard, "rb") as file:
            for _, data in tfrecord.scan(file):
                writer.write(data)
    writer.close()


def main() -> None:
    """Makes the files, then prints a line per comparison."""
    parser = photos_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rivals", default=sys.executable, help="python of the environment with the others")
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--only", default="", help="comparisons that have this text in a name")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--write_array_record", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender or args.write_array_record:
        files = Files.below(args.photos)
        write_array_record(files) if args.write_array_record else answer(args.contender, files)
        return
    print(where())
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        files = Files.below(Path(work))
        make_files(args.photos, args.copies, files, args.rivals)
        for ours, theirs, goal in COMPARISONS:
            if args.only not in ours + theirs:
                continue
            with Contender(ours, args.rivals, Path(work)) as mine, Contender(theirs, args.rivals, Path(work)) as other:
                compare(mine, other, goal, args.pairs, args.seconds)


if __name__ == "__main__":
    main()
