"""What reading alone and decoding alone can do on this machine: the limits that ``benchmark`` puts a stream beside.

The one decision: a limit does what the stream does and nothing else. Decoding cuts and resizes as the stream was asked to; a
stream from decoded images in memory has no limits, because it neither reads nor decodes; copies are read where copies were made.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from shardfeed import storage
from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.arrays.decode import image_decoder
from shardfeed.arrays.pipeline import RecordDecoder, records_per_task
from shardfeed.dataset.info import DatasetInfo
from shardfeed.dataset.provenance import Origin
from shardfeed.format.manifest import Shard
from shardfeed.runtime import cores
from shardfeed.sampling import order
from shardfeed.sampling.blocks import blocks_in

_SAMPLE_BYTES = 32 << 20  # of records held in memory for the decoding limit
_READERS = (2, 16)  # local, gs://
_SEED = 0x5EED  # blocks for the reading limit: others than the stream has just left in the page cache, in a large split
_WARM = 0.25  # of a pass is not measured, ``_WARM_MOST`` arrivals at most: until then what was made in advance is handed out
_WARM_MOST = 8

Arrivals = Sequence[tuple[float, int]]
"""(seconds on a clock, images) of each batch of one pass."""


def measured(origin: Origin, seconds: float, *, tensorflow: bool) -> tuple[float | None, float | None]:
    """(images/s of reading, of decoding), each measured for ``seconds``; None where the stream does not do it.

    ``tensorflow``: decoded by TensorFlow, not by ``array_batches``.
    """
    if origin.cache == "decoded":
        return None, None
    found = origin.info
    url, shards = (found.url, origin.split.shards) if origin.cache is None else _copies(origin)
    reader = BlockReader(url)
    sample, read = _reading(reader, storage.is_remote(url), shards, seconds)
    if tensorflow:
        wanted = _wanted(origin)
        return read, None if wanted is None else _rate(_tensorflow_decoding(found, wanted, sample), seconds)
    height, width, channels = found.image_shape
    if height is None or width is None:
        return read, None
    decoder = RecordDecoder(reader, image_decoder(found.manifest.image), (height, width, channels), len(found.classes))
    return read, _rate(_array_decoding(decoder, sample), seconds)


def rate_of(passes: Sequence[Arrivals]) -> float | None:
    """Images/s from arrivals, without starts: the first of each pass, and what lay ready when it came. None: nothing is left."""
    images, seconds = 0, 0.0
    for arrivals in passes:
        skipped = min(int(len(arrivals) * _WARM), _WARM_MOST)
        images += sum(rows for _, rows in arrivals[skipped + 1 :])
        seconds += arrivals[-1][0] - arrivals[skipped][0]
    return images / seconds if images and seconds > 0 else None


def _rate(counts: Generator[int, None, None], seconds: float) -> float:
    """Images/s of ``counts``, which have no end, over ``seconds`` after the first."""
    arrivals: list[tuple[float, int]] = []
    with closing(counts):
        for count in counts:
            arrivals.append((time.perf_counter(), count))
            if len(arrivals) > 1 and arrivals[-1][0] >= arrivals[0][0] + seconds and (rate := rate_of([arrivals])):
                return rate
    raise AssertionError("limits are measured without end")


def _copies(origin: Origin) -> tuple[str, tuple[Shard, ...]]:
    """The folder of the copies that ``load(cache=…)`` made and checked, and the shards as they are called there."""
    from shardfeed.dataset.local_copy import mirror

    shards = origin.split.shards
    paths = mirror(origin.info, shards, str(origin.cache))
    copies = [replace(shard, file=os.path.basename(path)) for shard, path in zip(shards, paths, strict=True)]
    return os.path.dirname(paths[0]), tuple(copies)


def _reading(
    reader: BlockReader, remote: bool, shards: Sequence[Shard], seconds: float
) -> tuple[list[LoadedBlock], float]:
    """A sample of records, and images/s of reading blocks in an order of its own."""
    blocks = blocks_in(shards)
    chosen = [blocks[number] for number in order.permutation(len(blocks), _SEED).tolist()]
    readers = _READERS[remote]
    sample: list[LoadedBlock] = []
    held = 0

    def counts() -> Generator[int, None, None]:
        nonlocal held
        endless = itertools.cycle(chosen)
        while True:  # as many at a time as there are readers
            for records in pool.map(reader.read, itertools.islice(endless, 4 * readers)):
                if held < _SAMPLE_BYTES:
                    sample.append(records)
                    held += len(records.data)
                yield len(records)

    with ThreadPoolExecutor(readers) as pool:
        return sample, _rate(counts(), seconds)


def _array_decoding(decoder: RecordDecoder, sample: list[LoadedBlock]) -> Generator[int, None, None]:
    examples = decoder.examples(sample)

    def decode(numbers: Sequence[int]) -> int:
        decoder.pixels(examples, numbers, np.empty((len(numbers), *decoder.shape), np.uint8))
        return len(numbers)

    threads = cores()
    chunk = records_per_task(decoder.shape, threads)
    with ThreadPoolExecutor(threads) as pool:
        every = range(len(examples.images))
        chunks = itertools.cycle([every[at : at + chunk] for at in range(0, len(every), chunk)])
        while True:
            yield from pool.map(decode, itertools.islice(chunks, 4 * threads))


def _wanted(origin: Origin) -> Any:
    """What the stream makes of a record; where it does not say, the image as it is stored. None: those have no one size."""
    from shardfeed.tfdata.decode import ImageOptions

    if origin.wanted is not None:
        return origin.wanted
    return None if None in origin.info.image_shape else ImageOptions(size=None)


def _tensorflow_decoding(found: DatasetInfo, wanted: Any, sample: list[LoadedBlock]) -> Generator[int, None, None]:
    import tensorflow as tf

    from shardfeed.tfdata.batching import records_per_call, threads, with_options
    from shardfeed.tfdata.decode import chunk_decoder

    decode = chunk_decoder(found.manifest.image, wanted)
    data = [bytes(record.data) for records in sample for record in records]
    records = (
        tf.data.Dataset.from_tensor_slices(data)
        .batch(records_per_call(wanted.output(found.manifest.image)))
        .cache()
        .repeat()
    )
    decoded = records.map(
        lambda chunk: decode(chunk, tf.range(tf.size(chunk, tf.int64)))["image"],
        num_parallel_calls=threads(),
        deterministic=True,
    )
    for images in with_options(decoded.prefetch(2)):
        yield int(images.shape[0])
