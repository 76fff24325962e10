"""How fast this machine can read alone and decode alone: the limits for ``benchmark``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np

from shardfeed import storage
from shardfeed.arrays.any_record import RecordForm
from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.arrays.decoder import DecodeOptions, RecordDecoder
from shardfeed.arrays.pipeline import records_per_task
from shardfeed.benchmarking.result import Arrivals, rate_of
from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.decoding import image_decoder
from shardfeed.format.manifest import ImageInfo
from shardfeed.runtime import cores
from shardfeed.sampling import order

_SAMPLE_BYTES = 32 << 20  # of records held in memory for the decoding limit
_READERS = (2, 16)  # local, remote
_SEED = 0x5EED  # its blocks should not be those that the stream has just left in the page cache


def measured(
    found: DatasetInfo,
    split: SplitInfo,
    seconds: float,
    *,
    tensorflow: bool,
    image_size: tuple[int, int] | None,
    crop: str | None,
) -> tuple[float, float | None]:
    """(images/s of reading, images/s of decoding), each measured for ``seconds``.

    Decoding is None if the images vary in size and no ``image_size`` is given. ``tensorflow``:
    TensorFlow decodes, crops and resizes, as in ``load``. Otherwise it is done as in
    ``array_batches``.
    """
    image = found.manifest.image
    reader = BlockReader(found.url)
    sample: list[LoadedBlock] = []
    read = _rate(_reading(reader, found, split, sample), seconds)
    stored = None if image.height is None or image.width is None else (image.height, image.width)
    size = image_size or stored
    if size is None:
        return read, None
    if tensorflow:
        return read, _rate(_tensorflow_decoding(image, image_size, crop, sample), seconds)
    options = None if crop is None and size == stored else DecodeOptions(stored, crop)
    shape, form = (*size, image.channels), RecordForm(found.label_kind, len(found.classes))
    decoder = RecordDecoder(reader, image_decoder(image.format), shape, form, options, stored is None)
    return read, _rate(_array_decoding(decoder, sample), seconds)


def _rate(counts: Generator[int, None, None], seconds: float) -> float:
    """Images/s of ``counts``, which have no end, over ``seconds`` after the first of them."""
    arrivals: Arrivals = []
    with closing(counts):
        for count in counts:
            arrivals.append((time.perf_counter(), count))
            if len(arrivals) > 1 and arrivals[-1][0] >= arrivals[0][0] + seconds and (rate := rate_of([arrivals])):
                return rate
    raise AssertionError("limits are measured without end")


def _reading(
    reader: BlockReader, found: DatasetInfo, split: SplitInfo, sample: list[LoadedBlock]
) -> Generator[int, None, None]:
    """Reads blocks in an order of their own; yields their numbers of records.

    The first blocks are put into ``sample``.
    """
    readers = _READERS[storage.is_remote(found.url)]
    blocks = split.blocks()
    endless = itertools.cycle(order.permutation(len(blocks), _SEED).tolist())
    held = 0
    with ThreadPoolExecutor(readers) as pool:
        while True:
            ahead = [blocks[number] for number in itertools.islice(endless, 4 * readers)]
            for block in pool.map(reader.read, ahead):
                if held < _SAMPLE_BYTES:
                    sample.append(block)
                    held += len(block.data)
                yield len(block)


def _array_decoding(decoder: RecordDecoder, sample: list[LoadedBlock]) -> Generator[int, None, None]:
    examples, threads = decoder.examples(sample), cores()
    chunk = records_per_task(decoder.shape, threads)
    every = range(len(examples.images))
    endless = itertools.cycle([every[at : at + chunk] for at in range(0, len(every), chunk)])

    def decode(numbers: Sequence[int]) -> int:
        images = np.empty((len(numbers), *decoder.shape), np.uint8)
        rows = range(len(numbers))
        decoder.pixels(examples, numbers, images, rows, rows)
        return len(numbers)

    with ThreadPoolExecutor(threads) as pool:
        while True:
            yield from pool.map(decode, itertools.islice(endless, 4 * threads))


def _tensorflow_decoding(
    image: ImageInfo, size: tuple[int, int] | None, crop: str | None, sample: list[LoadedBlock]
) -> Generator[int, None, None]:
    import tensorflow as tf

    from shardfeed.tfdata.batching import records_per_call, threads, with_options
    from shardfeed.tfdata.decode import DecodeOptions, chunk_decoder

    options = DecodeOptions(size=size, crop=crop, label_kind="none")  # of any record: labels are not read
    decode = chunk_decoder(image, options)
    data = [bytes(record.data) for block in sample for record in block]
    chunks = tf.data.Dataset.from_tensor_slices(data).batch(records_per_call(options.output(image))).cache().repeat()
    decoded = chunks.map(
        lambda chunk: decode(chunk, tf.range(tf.size(chunk, tf.int64)))["image"],
        num_parallel_calls=threads(),
        deterministic=True,
    )
    for images in with_options(decoded.prefetch(2)):
        yield int(images.shape[0])
