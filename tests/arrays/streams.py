"""Names the records in NumPy batches by their pixels."""

from __future__ import annotations

from itertools import islice
from typing import Any

import shardfeed
from tests.kit.datasets import Written

THREE_BLOCKS = 5_000  # bytes; a shuffle_buffer that makes windows of 3 blocks of raw datasets


def numbers(batches: Any, written: Written, split: str = "train", count: int | None = None) -> list[int]:
    """Number of each record in ``count`` batches (all without), each label checked; -1 for a padding row."""
    by_pixels = {record.pixels.tobytes(): i for i, record in enumerate(written.records[split])}
    assert len(by_pixels) == len(written.records[split])
    out = []
    for images, labels, *weights in islice(iter(batches), count):
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            if weights and weights[0][row] == 0:
                assert not image.any() and not label
                out.append(-1)
                continue
            number = by_pixels[image.tobytes()]
            assert written.records[split][number].label == label
            out.append(number)
    return out


def train(written: Written, batch_size: int, count: int | None = None, **options: Any) -> list[int]:
    """Numbers of the records in ``count`` training batches with windows of three blocks."""
    options = {"shuffle_buffer": THREE_BLOCKS, **options}
    return numbers(shardfeed.array_batches(written.path, "train", batch_size, **options), written, "train", count)
