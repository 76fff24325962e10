"""The end of an epoch is no longer a wait than any other step: the next epoch is being read while
this one is used up.

Nothing is timed. The consumer stops in the last window of an epoch, farther from its end than
decoded batches are kept ahead, and reading must come as far as the next epoch's first window by
itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

import shardfeed
from shardfeed.arrays.decoder import RecordDecoder
from shardfeed.tfdata import records
from tests.kit.datasets import Written, write_dataset

RECORDS, BATCH, WINDOWS = 800, 4, 2
HELD = RECORDS // BATCH - 50  # batches taken: 200 records before the end of the last window
PATIENCE = 60  # seconds until the test gives up; it is over as soon as the window is opened


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_dataset(
        tmp_path_factory.mktemp("dataset"), image_format="raw", size=(4, 4), splits={"train": RECORDS}, shards=4,
        block_records=100,
    )  # fmt: skip


def half(written: Written) -> int:
    """``shuffle_buffer`` for two windows an epoch."""
    return written.manifest.splits["train"].bytes // WINDOWS


def hold(stream: Iterator[Any]) -> None:
    for _ in range(HELD):
        next(stream)


def test_load_reads_the_next_epochs_first_window_while_the_last_one_is_used_up(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, next_epoch = [0], threading.Event()
    real = records.record_runs

    def watched(paths: Any, blocks: Any) -> records.RunReader:
        pieces = real(paths, blocks)

        def note(skip: Any) -> Any:
            opened[0] += 1
            if opened[0] > WINDOWS:
                next_epoch.set()
            return skip

        def read(block: Any, skip: Any, take: Any) -> tf.data.Dataset:
            return pieces(block, tf.ensure_shape(tf.numpy_function(note, [skip], tf.int64), skip.shape), take)

        return read

    monkeypatch.setattr(records, "record_runs", watched)
    hold(shardfeed.load(written.path, "train", BATCH, shuffle_buffer=half(written)).as_numpy_iterator())

    assert next_epoch.wait(PATIENCE)
    assert opened == [WINDOWS + 1]  # and no further: memory is bounded by two windows


def test_array_batches_reads_the_next_epochs_first_window_while_the_last_one_is_used_up(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, next_epoch = [0], threading.Event()
    real = RecordDecoder.examples

    def watched(self: RecordDecoder, blocks: Any) -> Any:
        found[0] += 1
        if found[0] > WINDOWS:
            next_epoch.set()
        return real(self, blocks)

    monkeypatch.setattr(RecordDecoder, "examples", watched)
    stream = iter(shardfeed.array_batches(written.path, "train", BATCH, shuffle_buffer=half(written), threads=1))
    hold(stream)

    assert next_epoch.wait(PATIENCE)
    assert found == [WINDOWS + 1]
    stream.close()  # type: ignore[attr-defined]
