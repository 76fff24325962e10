"""How far ``array_batches`` reads ahead of its consumer, counted at the store: what
``shuffle_buffer`` promises.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

import shardfeed
from shardfeed import storage
from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.arrays.decoder import RecordDecoder
from shardfeed.sampling.blocks import Block
from shardfeed.storage.base import Stat, Store
from tests.kit.datasets import Written, write_dataset

BLOCKS = 250
RECORDS = 4  # a block
BATCH = 8
STREAMS = 16  # of so many blocks
WINDOW = 2 * STREAMS  # blocks: two per stream
# Records decoded ahead with one thread (docs/how-to/numpy.md): two tasks are more than
# two batches.
DECODED = 2 * 64
READERS = 1  # blocks that may be asked for beyond the next window


class CountingStore:
    """Blocks that were read of a store, and those of their bytes that are in memory still."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.blocks = self.held = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read_range_with_stat(self, file: str, offset: int, size: int) -> tuple[bytes, Stat | None]:
        counter = self

        class Counted(bytes):
            def __del__(self) -> None:
                counter.held -= len(self)

        found, stat = self._store.read_range_with_stat(file, offset, size)
        data = Counted(found)
        self.blocks, self.held = self.blocks + 1, self.held + len(data)
        self.most = max(self.most, self.held)
        return data, stat

    def when_quiet(self) -> int:
        """Blocks read, once no more come.

        A look too early could only miss some: it never fails a reader that is in order.
        """
        before = -1
        while before != self.blocks:
            before = self.blocks
            time.sleep(0.2)
        return before


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_dataset(
        tmp_path_factory.mktemp("dataset"), image_format="raw", splits={"train": BLOCKS * RECORDS}, shards=5,
        block_records=RECORDS,
    )  # fmt: skip


@pytest.fixture
def store(written: Written, monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    counting = CountingStore(storage.open_store(str(written.path)))
    monkeypatch.setattr(storage, "open_store", lambda url: counting)
    return counting


def batches(written: Written) -> Iterator[Any]:
    """Batches in windows of ``WINDOW`` blocks, decoded by one thread."""
    window = written.manifest.splits["train"].bytes * WINDOW // BLOCKS
    return iter(shardfeed.array_batches(written.path, "train", BATCH, threads=1, shuffle_buffer=window))


def bound(taken: int) -> int:
    """Blocks that ``taken`` batches may have cost: their own, those decoded ahead, the window they
    end in and the next one.
    """
    return -(-(taken * BATCH + DECODED) // RECORDS) + 2 * WINDOW + READERS


def test_nothing_is_read_before_the_first_batch_is_asked_for(written: Written, store: CountingStore) -> None:
    batches(written)

    assert store.when_quiet() == 0


def test_a_consumer_that_stops_stops_the_reading(written: Written, store: CountingStore) -> None:
    stream = batches(written)

    for taken in range(1, 4):
        next(stream)
        assert taken * BATCH / RECORDS <= store.when_quiet() <= bound(taken) < BLOCKS / 2


def test_blocks_in_memory_are_bounded_over_passes(written: Written, store: CountingStore) -> None:
    largest = max(size for shard in written.manifest.splits["train"].shards for _, size in shard.blocks)

    for _ in islice(batches(written), 3 * BLOCKS * RECORDS // BATCH):
        pass

    # What a window still holds while the next two are there comes on top: a block is freed with
    # its last record.
    assert WINDOW * largest / 2 < store.most <= (bound(1) + WINDOW) * largest
    assert store.blocks >= 3 * BLOCKS


def test_nothing_is_kept_when_the_stream_is_left(written: Written, store: CountingStore) -> None:
    stream = batches(written)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    del stream
    gc.collect()

    assert store.held == 0


LEAVE = """
import __main__, codecs, sys, shardfeed
stream = iter(shardfeed.array_batches(sys.argv[1], "train", 8))
next(stream)
codecs.register(lambda name: stream)  # so it lives until modules lose their names, as it does with JAX
"""


def test_a_program_may_end_without_having_read_all(written: Written) -> None:
    done = subprocess.run([sys.executable, "-c", LEAVE, str(written.path)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_does_not_wait_for_a_read_that_gets_no_answer(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, waiting, reads = threading.Event(), threading.Event(), count()
    given_up = threading.Timer(20, answer.set)  # else a stream that waits would wait for ever
    read = BlockReader.read

    def read_none(reader: BlockReader, block: Block) -> LoadedBlock:
        if next(reads) >= WINDOW:  # of the next window
            waiting.set()
            answer.wait()
        return read(reader, block)

    def interrupt(*args: Any) -> None:
        waiting.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockReader, "read", read_none)
    monkeypatch.setattr(RecordDecoder, "examples", interrupt)
    given_up.start()

    with pytest.raises(KeyboardInterrupt):
        next(batches(written))

    assert not answer.is_set()
    given_up.cancel()
    answer.set()
