"""Names the records in batches, by their pixels: what ``load`` gives has no keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.datasets import Written, write_dataset

THREE_BLOCKS = 5_000  # bytes; a shuffle_buffer that makes windows of 3 blocks of ``lossless`` datasets


def lossless(path: Path, **options: Any) -> Written:
    """A dataset of raw pixels: 37 training records in 3 shards and 10 blocks, the last of 1 record."""
    return write_dataset(path, image_format="raw", **options)


def numbers(batches: tf.data.Dataset, written: Written, split: str, count: int | None = None) -> list[int]:
    """Number of each record in ``count`` batches (all without), each label checked; -1 for a padding row."""
    by_pixels = {record.pixels.tobytes(): i for i, record in enumerate(written.records[split])}
    assert len(by_pixels) == len(written.records[split])
    out = []
    for images, labels, *weights in islice(batches.as_numpy_iterator(), count):
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            if weights and weights[0][row] == 0:
                assert not image.any() and not label
                out.append(-1)
                continue
            number = by_pixels[image.tobytes()]
            assert written.records[split][number].label == label
            out.append(number)
    return out


def passes(stream: Sequence[int], size: int) -> list[list[int]]:
    """``stream`` cut into whole passes of ``size`` records."""
    return [list(stream[i : i + size]) for i in range(0, len(stream) - size + 1, size)]


def pixels_of(batches: tf.data.Dataset) -> np.ndarray:
    """All images of a finite stream, one below the other."""
    return np.concatenate([images for images, *_ in batches.as_numpy_iterator()])
