"""``benchmark``: how fast batches come here, against what this machine could do, and what holds them up.

The one decision: a rate alone says nothing, so it is put beside two limits that are measured in the same minute: decoding
records that lie in memory, on all cores, and reading blocks without decoding them. Which of the two the stream comes close to
is the bottleneck; if neither, it is what was added behind ``load``, or another program.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from shardfeed import order, storage
from shardfeed.array_blocks import BlockReader, Record, blocks_in
from shardfeed.array_decode import image_decoder
from shardfeed.array_reading import Decoder
from shardfeed.benchmark_result import Benchmark
from shardfeed.dataset_info import DatasetInfo, SplitInfo, info
from shardfeed.errors import UsageError, clip

_SAMPLE_BYTES = 32 << 20  # of records held in memory for the decoding limit
_READERS = (2, 16)  # local, gs://
_SEED = 0x5EED  # blocks for the reading limit: others than the stream has just left in the page cache, in a large split


def benchmark(
    batches: Iterable[Any],
    dataset: DatasetInfo | str | os.PathLike[str],
    split: str = "train",
    *,
    seconds: float = 5.0,
    step_ms: float | None = None,
) -> Benchmark:
    """Measure ``batches`` for ``seconds``, then for half as long each what decoding and reading alone can do.

        train = shardfeed.load(info, "train", 128)
        print(shardfeed.benchmark(train, info, step_ms=22))

    Args:
        batches: What ``load`` or ``array_batches`` gave, or what you made of it; the first element of a batch is the images.
        dataset: The dataset that they come from.
        split: Its split.
        seconds: How long the stream is read.
        step_ms: Milliseconds that your accelerator takes for one of these batches.

    Raises:
        UsageError: no batches; arguments that cannot be.
        DatasetError: as the reader.
    """
    for name, value in (("seconds", seconds), ("step_ms", step_ms)):
        if value is not None and not (isinstance(value, int | float) and value > 0):
            raise UsageError(f"{name}={clip(repr(value))}: expected a number above 0.")
    found = dataset if isinstance(dataset, DatasetInfo) else info(dataset)
    chosen = found.splits[split]
    first, rows, rate = _stream_rate(batches, seconds)
    reader = BlockReader(found.url)
    sample, read_limit = _read_rate(reader, found, chosen, seconds / 2)
    return Benchmark(
        images_per_second=rate,
        megabytes_per_second=rate * chosen.bytes / chosen.num_records / 1e6,
        cores=_cores(),
        batch_size=rows,
        first_batch_seconds=first,
        decode_limit=_decode_rate(batches, reader, found, sample, seconds / 2),
        read_limit=read_limit,
        needed=None if step_ms is None else rows * 1000 / step_ms,
        remote=storage.is_remote(found.url),
    )


def benchmark_reader(
    directory: str, split: str | None, batch_size: int, *, reader: str, seconds: float, step_ms: float | None
) -> Benchmark:
    """``benchmark`` of a training stream of ``split`` (by default the first) as ``reader``, "tensorflow" or "arrays", gives it.

    Raises:
        UsageError: as ``benchmark``; the reader is not installed.
    """
    import shardfeed

    found = info(directory)
    chosen = next(iter(found.splits)) if split is None else split
    try:
        read: Any = shardfeed.load if reader == "tensorflow" else shardfeed.array_batches
    except ImportError as error:
        raise UsageError(f"{error}. Without TensorFlow, measure the NumPy reader: --reader arrays") from None
    return benchmark(read(found, chosen, batch_size, training=True), found, chosen, seconds=seconds, step_ms=step_ms)


def _stream_rate(batches: Iterable[Any], seconds: float) -> tuple[float, int, float]:
    """(Seconds to the first batch, its rows, images/s after it). A stream that ends is started again."""
    start = time.perf_counter()
    stream = iter(batches)
    batch = next(stream, None)
    if batch is None:
        raise UsageError("there are no batches to measure: expected what load or array_batches gives.")
    first, rows = time.perf_counter() - start, _rows(batch)
    stream = itertools.chain(stream, itertools.chain.from_iterable(itertools.repeat(batches)))
    return first, rows, _rate((_rows(batch) for batch in stream), seconds)


def _rows(batch: Any) -> int:
    images = (
        batch[0]
        if isinstance(batch, tuple | list)
        else next(iter(batch.values()))
        if isinstance(batch, dict)
        else batch
    )
    return int(images.shape[0])


def _rate(counts: Iterator[int], seconds: float) -> float:
    """Sum of ``counts`` a second, over at least one of them and ``seconds``."""
    done, start = 0, time.perf_counter()
    for count in counts:
        done += count
        if (passed := time.perf_counter() - start) >= seconds:
            return done / passed
    raise AssertionError("streams that are measured have no end")


def _read_rate(reader: BlockReader, found: DatasetInfo, split: SplitInfo, seconds: float) -> tuple[list[Record], float]:
    """A sample of records, and images/s of reading blocks in an order of its own."""
    blocks = blocks_in(split.shards)
    chosen = [blocks[number] for number in order.permutation(len(blocks), _SEED).tolist()]
    readers = _READERS[storage.is_remote(found.url)]
    sample: list[Record] = []
    held = 0

    def counts() -> Iterator[int]:
        nonlocal held
        endless = itertools.cycle(chosen)
        while True:  # as many at a time as there are readers
            for records in pool.map(reader.read, itertools.islice(endless, 4 * readers)):
                if held < _SAMPLE_BYTES:
                    sample.extend(records)
                    held += sum(len(record.data) for record in records)
                yield len(records)

    with ThreadPoolExecutor(readers) as pool:
        return sample, _rate(counts(), seconds)


def _decode_rate(
    batches: Iterable[Any], reader: BlockReader, found: DatasetInfo, sample: list[Record], seconds: float
) -> float | None:
    """Images/s of the decoder that ``batches`` use, TensorFlow's or ours, on records in memory."""
    height, width, channels = found.image_shape
    if height is None or width is None:
        return None
    if type(batches).__module__.startswith("tensorflow."):
        return _rate(_tensorflow_decoding(found, [record.data for record in sample]), seconds)
    decoder = Decoder(reader, image_decoder(found.manifest.image), (height, width, channels), len(found.classes))
    return _rate(_array_decoding(decoder, sample), seconds)


def _array_decoding(decoder: Decoder, sample: list[Record]) -> Iterator[int]:
    def decode(records: list[Record]) -> int:
        images = np.empty((len(records), *decoder.shape), np.uint8)
        decoder.rows(records, images, np.empty(len(records), np.int32))
        return len(records)

    with ThreadPoolExecutor(_cores()) as pool:
        chunks = itertools.cycle([sample[at : at + 32] for at in range(0, len(sample), 32)])
        while True:
            yield from pool.map(decode, itertools.islice(chunks, 4 * _cores()))


def _tensorflow_decoding(found: DatasetInfo, sample: list[bytes]) -> Iterator[int]:
    import tensorflow as tf

    from shardfeed.decode import Wanted, chunk_decoder

    calls, decode = _cores() + 2, chunk_decoder(found.manifest.image, Wanted(size=None))
    records = tf.data.Dataset.from_tensor_slices(sample).batch(128).cache().repeat()
    decoded = records.map(
        lambda chunk: decode(chunk, tf.zeros_like(chunk, tf.int64))["image"],
        num_parallel_calls=calls,
        deterministic=True,
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = calls
    options.threading.max_intra_op_parallelism = 1
    for images in decoded.prefetch(2).with_options(options):
        yield int(images.shape[0])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
