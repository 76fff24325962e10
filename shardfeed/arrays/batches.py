"""``array_batches``: a split as NumPy arrays, for JAX and PyTorch, without TensorFlow.

    blocks → windows → records in order → chunks decoded by a pool of threads → batches

Threads do the work, not processes. Reading, decoding and copying release the interpreter lock, so
threads use all cores. A batch is decoded where the caller reads it; nothing is pickled or sent
through a pipe.

``shardfeed.sampling`` decides which records a host reads, and when, as for ``load``. Inside a
window the order is this reader's own: TensorFlow's shuffle cannot be entered in the middle, this
permutation can.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed import storage
from shardfeed.accelerator.hosts import check_same_worker, dataloader_worker, find_host
from shardfeed.arguments import byte_count, choice, integer, is_training, positive, thread_count
from shardfeed.arrays.blocks import BlockReader
from shardfeed.arrays.pipeline import RecordDecoder, batches
from shardfeed.dataset.info import DatasetInfo, one_size, opened
from shardfeed.dataset.repeats import Repeats
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.decoding import image_decoder
from shardfeed.runtime import cores
from shardfeed.sampling.record_order import evaluation_windows, training_windows
from shardfeed.sampling.steps import evaluation_plan, host_batch, training_steps
from shardfeed.sampling.streams import is_elastic, warn_if_not_elastic
from shardfeed.warning import warn

_LOCAL_READERS = 1
# requests in flight on gs://: a block is a megabyte, and a request waits about 50 ms
_REMOTE_READERS = 16
_MAX_THREADS = 64

Batch = tuple[NDArray[Any], ...]


class ArrayBatches:
    """What ``array_batches`` gives: an iterable; ``len`` is its number of batches if it ends.

    Attributes:
        batch_size: Rows per batch on this host.
        image_shape: Height, width and channels of one row.
    """

    def __init__(
        self,
        again: partial[ArrayBatches],
        read: Callable[[], Iterator[Batch]],
        *,
        steps: int | None,
        batch_size: int,
        image_shape: tuple[int, int, int],
    ) -> None:
        self.batch_size, self.image_shape = batch_size, image_shape
        self._again, self._read, self._steps = again, read, steps
        self._made_in = dataloader_worker()

    # another process opens the dataset anew
    def __reduce__(self) -> tuple[partial[ArrayBatches], tuple[()]]:
        return self._again, ()

    def __repr__(self) -> str:
        found, split, _ = self._again.args
        many = "endless batches" if self._steps is None else f"{self._steps} batches"
        return f"ArrayBatches({many} of {self.batch_size} from {split} of {found.url})"

    # without it Python asks for the length, which an endless stream does not have
    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        if self._steps is None:
            raise TypeError("a training stream without epochs= has no end and no length")
        return self._steps

    def __iter__(self) -> Iterator[Batch]:
        check_same_worker(self._made_in)
        return self._read()


def array_batches(
    dataset: DatasetInfo | str | os.PathLike[str],
    split: str,
    batch_size: int,
    *,
    training: bool | None = None,
    epochs: int | None = None,
    seed: int = 0,
    host: tuple[int, int] | str | None = None,
    start_step: int = 0,
    shuffle_buffer: int | str = "128MB",
    eval_remainder: str = "pad",
    threads: int | None = None,
) -> ArrayBatches:
    """Iterable of the batches of one split, images decoded. Each reading gives the same batches.

    Training: ``(x, y)`` without end. ``x`` is uint8[b, height, width, channels], 0 to 255; ``y``
    is int32[b], indices into ``info.classes``; ``b`` is ``batch_size`` / number of hosts. Every
    pass holds every record exactly once over the hosts, in an order that depends on ``(seed,
    pass)`` and ``shuffle_buffer`` alone. Row r of host h of H is row r * H + h of the global batch.
    Batches straddle passes.

    Evaluation: ``(x, y, w)``, as many batches on every host, every record exactly once over the
    hosts, in the order of the shards. ``w`` is float32[b]: 0 on the rows that fill batches up, all
    rows / records on the others. So a mean of ``w * loss`` over all batches and hosts is the mean
    over the records.

    The pixels are those of ``load``, bit for bit. The order inside a window of ``shuffle_buffer``
    bytes is another one.

    Args:
        dataset: What ``shardfeed.info`` gave, a local folder or ``gs://bucket/folder``.
        split: Name of the split, or a part of it such as "train[:10%]" (see ``info.splits``).
        batch_size: Records per batch over all hosts.
        training: True or False chooses the form. By default "train" is trained on; "validation",
            "valid", "val", "dev", "test" and "eval" are evaluated; any other name needs this
            argument.
        epochs: Training: end after this many passes; None = never. Read such a stream once: each
            reading is the same, and a second one warns.
        seed: Training: seed of the order.
        host: As for ``load``: (index, count); None or "auto" asks the frameworks that run here.
        start_step: Training: begin with this batch, as if those before had been read. Needs the
            same batch size; the number of hosts may change as for ``load``.
        shuffle_buffer: Training: bytes shuffled together over all hosts ("64MB", "1GB" or an int);
            at least a block (1 MB) of each stream. As much again is read ahead.
        eval_remainder: Evaluation: "pad", or "partial" for a smaller last batch with weights of 1
            (one host only).
        threads: Decoding threads; by default one per core.

    Raises:
        DatasetError: no dataset, or a shard of another size. While reading: names file, record,
            key, what was expected and what was found.
        UsageError: a wrong argument; no such split; images of varying size; one process of
            several, without ``host`` and without a framework that says which.
    """
    found = opened(dataset)
    chosen = found.splits[split]
    training = is_training(split, training)
    here, size = find_host(host), positive("batch_size", batch_size)
    index, hosts = here.index, here.count
    window_bytes, seed = byte_count("shuffle_buffer", shuffle_buffer), integer("seed", seed)
    pad = choice("eval_remainder", eval_remainder, ("pad", "partial")) == "pad"
    share = host_batch(size, hosts, here.replicas)
    threads = min(cores(), _MAX_THREADS) if threads is None else thread_count(threads)
    start = integer("start_step", start_step, least=0)
    again = partial(
        array_batches, found, split, size, training=training, epochs=epochs, seed=seed, host=(index, hosts),
        start_step=start, shuffle_buffer=window_bytes, eval_remainder=eval_remainder, threads=threads,
    )  # fmt: skip
    remedy = ". Build the dataset with a fixed size, for example --resize crop --image_size 224."
    shape = (*one_size(found, remedy), found.manifest.image.channels)
    check_split(found, chosen)
    decoder = RecordDecoder(
        BlockReader(found.url), image_decoder(found.manifest.image.format), shape, len(found.classes)
    )
    readers = _REMOTE_READERS if storage.is_remote(found.url) else _LOCAL_READERS
    decoded = partial(batches, decoder=decoder, batch_size=share, readers=readers, threads=threads)

    blocks = chosen.blocks()
    if training:
        elastic = is_elastic(len(blocks), hosts)
        steps = training_steps(split, chosen.num_records, share, hosts, epochs, start, elastic=elastic)
        warn_if_not_elastic(split, len(blocks), hosts)
        watch = None if epochs is None else Repeats(split, epochs)

        def read() -> Iterator[Batch]:
            windows = training_windows(
                blocks, seed=seed, window_bytes=window_bytes, host=index, hosts=hosts, start=start * share,
                count=None if steps is None else steps * share,
            )  # fmt: skip
            with closing(decoded(windows)) as stream:
                for step, batch in enumerate(stream, 1):
                    if watch is not None:
                        watch(step == 1, step == steps)
                    yield batch
    else:
        # Every host has its own devices, so one host may have a smaller last batch.
        plan = evaluation_plan(
            split, chosen.num_records, share, hosts, replicas=hosts, pad=pad, epochs=epochs, start=start
        )
        steps = plan.steps
        if plan.padding:
            warn(
                f"{plan.padding} rows of weight 0 fill up the last batch of {split}: a mean of w * loss is exact, one of "
                "loss is not."
            )
        none = np.empty((0, *shape), np.uint8), np.empty(0, np.int32)

        def read() -> Iterator[Batch]:
            with closing(decoded(evaluation_windows(blocks, host=index, hosts=hosts))) as stream:
                for _ in range(plan.steps):
                    # This host's records can be used up before those of another one.
                    yield _weighted(*next(stream, none), share if pad else 0, plan.weight)

    return ArrayBatches(again, read, steps=steps, batch_size=share, image_shape=shape)


def _weighted(images: NDArray[np.uint8], labels: NDArray[np.int32], rows: int, weight: float) -> Batch:
    """A batch with weights, filled up to ``rows`` with rows of weight 0."""
    real = len(labels)
    if real < rows:  # only the last batch pays for a copy of its pixels
        images = np.concatenate([images, np.zeros((rows - real, *images.shape[1:]), np.uint8)])
        labels = np.concatenate([labels, np.zeros(rows - real, np.int32)])
    return images, labels, (np.arange(len(labels)) < real) * np.float32(weight)
