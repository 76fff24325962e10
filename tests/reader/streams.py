"""Names the records in batches of both readers by their pixels: what they give has no keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import shardfeed
from shardfeed.sampling import order
from shardfeed.sampling.blocks import Blocks
from shardfeed.sampling.streams import Streams
from tests.kit.datasets import Pixels, Written, write_dataset

# bytes; a shuffle_buffer that makes windows of 3 blocks of ``lossless`` datasets
THREE_BLOCKS = 5_000
READERS = pytest.mark.parametrize("reader", [shardfeed.load, shardfeed.array_batches], ids=["load", "array_batches"])


def by_reader(names: str, cases: Sequence[Any], load: Sequence[int]) -> pytest.MarkDecorator:
    """Parameters ``reader`` and ``names``: all cases for ``array_batches``, and for ``load``, which
    makes a graph of each, those of the given numbers.
    """
    rows = [(shardfeed.array_batches, case) for case in cases] + [(shardfeed.load, cases[number]) for number in load]
    single = "," not in names
    return pytest.mark.parametrize(
        ["reader", *names.split(",")],
        [(reader, case) if single else (reader, *case) for reader, case in rows],
        ids=lambda value: getattr(value, "__name__", str(value)),
    )


def lossless(path: Path, **options: Any) -> Written:
    """A dataset of raw pixels: 37 training records in 3 shards and 10 blocks, the last of 1
    record.
    """
    return write_dataset(path, image_format="raw", **options)


def elastic(path: Path) -> Written:
    """A dataset of raw pixels: 301 training records in 5 shards and 76 blocks, so 8 streams."""
    return lossless(path, splits={"train": 301}, shards=5)


def numbers(batches: Any, written: Written, split: str, count: int | None = None) -> list[int]:
    """Number of each record in ``count`` batches (all without), each label checked; -1 for a
    padding row.
    """
    by_pixels = {record.pixels.tobytes(): i for i, record in enumerate(written.records[split])}
    assert len(by_pixels) == len(written.records[split])
    arrays = batches.as_numpy_iterator() if isinstance(batches, tf.data.Dataset) else iter(batches)
    out = []
    for images, labels, *weights in islice(arrays, count):
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            if weights and weights[0][row] == 0:
                assert not image.any() and not label
                out.append(-1)
                continue
            number = by_pixels[image.tobytes()]
            assert written.records[split][number].label == label
            out.append(number)
    return out


def train(reader: Any, written: Written, batch_size: int, count: int | None = None, **options: Any) -> list[int]:
    """Numbers of the records in ``count`` training batches of ``reader``, with windows of three
    blocks.
    """
    options = {"shuffle_buffer": THREE_BLOCKS, **options}
    return numbers(reader(written.path, "train", batch_size, **options), written, "train", count)


def passes(stream: Sequence[int], size: int) -> list[list[int]]:
    """``stream`` cut into whole passes of ``size`` records."""
    return [list(stream[i : i + size]) for i in range(0, len(stream) - size + 1, size)]


def windows(blocks: Blocks, seed: int, epoch: int, size: int, streams: Streams) -> list[tuple[range, list[int]]]:
    """The windows of an epoch of one host: their rows, and their records in the order of the
    files.
    """
    firsts = np.cumsum(blocks.records) - blocks.records
    found = []
    for window in order.host_windows(blocks, seed, epoch, size, streams):
        runs = zip(*map(list, (window.runs.block, window.runs.skip, window.runs.take)), strict=True)
        found.append((window.rows, [int(firsts[block]) + skip + i for block, skip, take in runs for i in range(take)]))
    return found


def pixels_of(batches: tf.data.Dataset) -> Pixels:
    """All images of a finite stream, one below the other."""
    return np.concatenate([images for images, *_ in batches.as_numpy_iterator()])
