"""``array_batches``: a split as NumPy arrays, for JAX and PyTorch, with no TensorFlow.

    blocks → windows → records in order → chunks decoded by a pool of threads → batches

The one decision: threads, not processes. Reading, decoding and copying release the interpreter's lock, so threads use all
cores, and a batch is decoded where the caller reads it: nothing is pickled or sent through a pipe.

``shardfeed.sampling`` decides which records a host reads, and when, as for ``load``. Inside a window the
order is this reader's own (TensorFlow's shuffle cannot be entered in the middle; this permutation can).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed import storage
from shardfeed.accelerator.hosts import check_same_worker, dataloader_worker, find_host
from shardfeed.arguments import byte_count, choice, integer, is_training, positive, thread_count
from shardfeed.arrays.blocks import BlockReader
from shardfeed.arrays.decode import image_decoder
from shardfeed.arrays.pipeline import Decoder, batches
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.repeats import Repeats
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.errors import UsageError, clip
from shardfeed.runtime import cores
from shardfeed.sampling.host_share import host_batch, host_range, training_steps
from shardfeed.sampling.record_order import Window, evaluation_windows, training_windows
from shardfeed.warning import warn

_LOCAL_READERS = 1
_REMOTE_READERS = 16  # requests in flight on gs://: a block is a megabyte, and a request waits about 50 ms
_MAX_THREADS = 64

Batch = tuple[NDArray[Any], ...]


class ArrayBatches:
    """What ``array_batches`` gives: an iterable; ``len`` is its number of batches, where it ends.

    ``batch_size``: rows a batch on this host; ``image_shape``: of one row.
    """

    def __init__(
        self, again: partial[ArrayBatches], decoder: Decoder, batch_size: int, steps: int | None,
        windows: Callable[[], Iterator[Window]], weight: float | None, *, pad: bool, readers: int, threads: int,
        watch: Repeats | None = None,
    ) -> None:  # fmt: skip
        self.batch_size, self.image_shape = batch_size, decoder.shape
        self._again, self._decoder, self._steps, self._windows, self._weight = again, decoder, steps, windows, weight
        self._watch, self._pad, self._readers, self._threads = watch, pad, readers, threads
        self._made_in = dataloader_worker()

    def __reduce__(self) -> tuple[partial[ArrayBatches], tuple[()]]:  # another process opens the dataset anew
        return self._again, ()

    def __repr__(self) -> str:
        found, split, _ = self._again.args
        many = "endless batches" if self._steps is None else f"{self._steps} batches"
        return f"ArrayBatches({many} of {self.batch_size} from {split} of {found.url})"

    def __bool__(self) -> bool:  # without it Python asks for the length, which an endless stream has not
        return True

    def __len__(self) -> int:
        if self._steps is None:
            raise TypeError("a training stream without epochs= has no end and no length")
        return self._steps

    def __iter__(self) -> Iterator[Batch]:
        check_same_worker(self._made_in)
        found = batches(self._windows, self._decoder, self.batch_size, readers=self._readers, threads=self._threads)
        step = 0
        try:
            while self._steps is None or step < self._steps:
                batch = next(found, None)
                if batch is None:  # this host's records are used up before those of another one
                    batch = (np.empty((0, *self.image_shape), np.uint8), np.empty(0, np.int32))
                if self._watch is not None:
                    self._watch(step == 0, step + 1 == self._steps)
                yield batch if self._weight is None else self._weighted(*batch)
                step += 1
        finally:
            found.close()

    def _weighted(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> Batch:
        real = len(labels)
        missing = self.batch_size - real if self._pad else 0
        if missing:  # only the last batch pays for a copy of its pixels
            images = np.concatenate([images, np.zeros((missing, *self.image_shape), np.uint8)])
            labels = np.concatenate([labels, np.zeros(missing, np.int32)])
        return images, labels, (np.arange(len(labels)) < real) * np.float32(self._weight or 0)


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
    """Batches of one split, images decoded; an iterable. Each reading of it gives the same batches.

    Training: ``(x, y)`` without end; ``x`` uint8[b, height, width, channels], 0 to 255, ``y`` int32[b], indices into
    ``info.classes``; ``b`` is ``batch_size`` / number of hosts. Every pass holds every record exactly once over the hosts, in an
    order that depends on ``(seed, pass)``, ``shuffle_buffer`` and the hosts alone; batches straddle passes.

    Evaluation: ``(x, y, w)``, as many batches on every host, every record exactly once over the hosts, in the order of the
    shards. ``w`` is float32[b]: 0 on the rows that fill batches up, padded/real rows on all others, so that a mean of
    ``w * loss`` over all batches and hosts is the mean over the records.

    The pixels are those of ``load``, bit for bit; the order inside a window of ``shuffle_buffer`` bytes is another one.

    Args:
        dataset: What ``shardfeed.info`` gave, a local folder or ``gs://bucket/folder``.
        split: Name of the split.
        batch_size: Records a batch over all hosts.
        training: Which of the two. By default "train" is trained on; "validation", "valid", "val", "dev", "test" and "eval"
            are evaluated; any other name needs True or False.
        epochs: Training: end after this many passes; None = never. Read such a stream once: each reading is the same,
            and a second one warns.
        seed: Training: of the order.
        host: As for ``load``: (index, count); None or "auto" asks the frameworks that run here.
        start_step: Training: begin with this batch, as if those before had been read. Needs the same hosts and batch size.
        shuffle_buffer: Training: bytes shuffled together ("64MB", "1GB" or an int); as much again is read ahead.
        eval_remainder: Evaluation: "pad", or "partial" for a smaller last batch with weights of 1 (one host only).
        threads: Decoding threads; by default one a core.

    Raises:
        DatasetError: no dataset, a shard of another size; while reading: names file, record, key, expected and found.
        UsageError: an argument that cannot be; no such split; images of varying size; no decoder for the format; one process
            of several, without ``host`` and without a framework that says which.
    """
    found = opened(dataset)
    chosen = found.splits[split]
    training = is_training(split, training)
    here, size = find_host(host), positive("batch_size", batch_size)
    index, hosts = here.index, here.count
    window_bytes, seed = byte_count("shuffle_buffer", shuffle_buffer), integer("seed", seed)
    pad = choice("eval_remainder", eval_remainder, ("pad", "partial")) == "pad"
    local = host_batch(size, hosts, here.replicas)
    threads = min(cores(), _MAX_THREADS) if threads is None else thread_count(threads)
    start = integer("start_step", start_step, least=0)
    again = partial(
        array_batches, found, split, size, training=training, epochs=epochs, seed=seed, host=(index, hosts),
        start_step=start, shuffle_buffer=window_bytes, eval_remainder=eval_remainder, threads=threads,
    )  # fmt: skip
    shape = _image_shape(found)
    check_split(found, chosen)
    decoder = Decoder(BlockReader(found.url), image_decoder(found.manifest.image), shape, len(found.classes))
    pools: dict[str, Any] = {
        "readers": _REMOTE_READERS if storage.is_remote(found.url) else _LOCAL_READERS,
        "threads": threads,
    }
    if training:
        steps = training_steps(split, chosen.num_records, local, hosts, epochs, start)

        def train() -> Iterator[Window]:
            count = None if steps is None else steps * local
            return training_windows(
                chosen.shards,
                seed=seed,
                window_bytes=window_bytes,
                host=index,
                hosts=hosts,
                start=start * local,
                count=count,
            )

        watch = None if epochs is None else Repeats(split, epochs)
        return ArrayBatches(again, decoder, local, steps, train, None, pad=False, watch=watch, **pools)
    _check_evaluation(split, hosts, epochs, start, pad)
    steps = -(-max(len(host_range(chosen.num_records, i, hosts)) for i in (0, hosts - 1)) // local)

    def evaluate() -> Iterator[Window]:
        return evaluation_windows(chosen.shards, host=index, hosts=hosts)

    if pad and (missing := steps * size - chosen.num_records):
        warn(
            f"{missing} rows of weight 0 fill up the last batch of {split}: a mean of w * loss is exact, one of loss is not."
        )
    weight = steps * size / chosen.num_records if pad else 1.0
    return ArrayBatches(again, decoder, local, steps, evaluate, weight, pad=pad, **pools)


def _check_evaluation(split: str, hosts: int, epochs: int | None, start: int, pad: bool) -> None:
    for name, value, unset in (("epochs", epochs, None), ("start_step", start, 0)):
        if value != unset:
            raise UsageError(
                f"{name}={clip(value)}: evaluation is one pass over {split}. Leave {name} out, or pass training=True."
            )
    if hosts > 1 and not pad:
        raise UsageError(
            'eval_remainder="partial" gives hosts different numbers of batches. Use "pad" with more than one host.'
        )


def _image_shape(found: DatasetInfo) -> tuple[int, int, int]:
    height, width, channels = found.image_shape
    if height is None or width is None:
        raise UsageError(
            f"the images of the dataset at {clip(found.url)} vary in size, and a batch needs one. "
            "Build the dataset with a fixed size, for example --resize crop --image_size 224."
        )
    return height, width, channels
