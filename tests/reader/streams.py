"""Names the records in batches, by their pixels: what ``load`` gives has no keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.sampling import order
from shardfeed.sampling.blocks import Blocks
from tests.arrays import streams
from tests.kit.datasets import Written, write_dataset

THREE_BLOCKS = 5_000  # bytes; a shuffle_buffer that makes windows of 3 blocks of ``lossless`` datasets


def lossless(path: Path, **options: Any) -> Written:
    """A dataset of raw pixels: 37 training records in 3 shards and 10 blocks, the last of 1 record."""
    return write_dataset(path, image_format="raw", **options)


def numbers(batches: tf.data.Dataset, written: Written, split: str, count: int | None = None) -> list[int]:
    """Number of each record in ``count`` batches (all without), each label checked; -1 for a padding row."""
    return streams.numbers(batches.as_numpy_iterator(), written, split, count)


def passes(stream: Sequence[int], size: int) -> list[list[int]]:
    """``stream`` cut into whole passes of ``size`` records."""
    return [list(stream[i : i + size]) for i in range(0, len(stream) - size + 1, size)]


def windows(blocks: Blocks, seed: int, epoch: int, size: int) -> list[list[int]]:
    """Numbers of the blocks in each window of an epoch, for one host of one."""
    every = range(int(blocks.records.sum()))
    return [window.runs.block.tolist() for window in order.host_windows(blocks, seed, epoch, size, every)]


def pixels_of(batches: tf.data.Dataset) -> np.ndarray:
    """All images of a finite stream, one below the other."""
    return np.concatenate([images for images, *_ in batches.as_numpy_iterator()])
