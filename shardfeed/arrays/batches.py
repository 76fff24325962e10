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

from shardfeed import storage
from shardfeed.accelerator.hosts import check_same_worker, dataloader_worker, find_host
from shardfeed.arguments import byte_count, choice, crop_kind, flag, integer, is_training, positive, thread_count
from shardfeed.arrays.blocks import BlockReader
from shardfeed.arrays.decoder import ImageOptions, RecordDecoder
from shardfeed.arrays.forms import Batch, BatchForm
from shardfeed.arrays.pipeline import batches
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.reader_arguments import shown_size
from shardfeed.dataset.repeats import Repeats
from shardfeed.dataset.shard_sizes import check_split
from shardfeed.decoding import image_decoder
from shardfeed.runtime import cores
from shardfeed.sampling import order
from shardfeed.sampling.host_share import host_range
from shardfeed.sampling.record_order import evaluation_windows, training_windows
from shardfeed.sampling.steps import evaluation_plan, host_batch, training_steps
from shardfeed.warning import warn

_LOCAL_READERS = 1
# requests in flight on gs://: a block is a megabyte, and a request waits about 50 ms
_REMOTE_READERS = 16
_MAX_THREADS = 64
_FOREVER = 1 << 62  # records of a stream


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
    image_size: int | tuple[int, int] | None = None,
    crop: str | None = None,
    label: str = "int",
    as_dict: bool = False,
    eval_remainder: str = "pad",
    threads: int | None = None,
) -> ArrayBatches:
    """Iterable of the batches of one split, images decoded. Each reading gives the same batches.

    Training: ``(x, y)`` without end. ``x`` is uint8[b, height, width, channels], 0 to 255; ``y``
    is int32[b], indices into ``info.classes``; ``b`` is ``batch_size`` / number of hosts. Every
    pass holds every record exactly once over the hosts, in an order that depends on ``(seed,
    pass)``, ``shuffle_buffer`` and the hosts alone. Batches straddle passes.

    Evaluation: ``(x, y, w)``, as many batches on every host, every record exactly once over the
    hosts, in the order of the shards. ``w`` is float32[b]: 0 on the rows that fill batches up, all
    rows / records on the others. So a mean of ``w * loss`` over all batches and hosts is the mean
    over the records.

    Images that are not resized have the pixels of ``load``, bit for bit. The boxes of crops are the
    same, too; a resized value may differ by 1 level. The order inside a window of
    ``shuffle_buffer`` bytes is another one.

    Args:
        dataset: What ``shardfeed.info`` gave, a local folder or ``gs://bucket/folder``.
        split: Name of the split.
        batch_size: Records per batch over all hosts.
        training: True or False chooses the form. By default "train" is trained on; "validation",
            "valid", "val", "dev", "test" and "eval" are evaluated; any other name needs this
            argument.
        epochs: Training: end after this many passes; None = never. Read such a stream once: each
            reading is the same, and a second one warns.
        seed: Training: seed of the order and of random crops.
        host: As for ``load``: (index, count); None or "auto" asks the frameworks that run here.
        start_step: Training: begin with this batch, as if those before had been read. Needs the
            same hosts and batch size.
        shuffle_buffer: Training: bytes shuffled together ("64MB", "1GB" or an int). As much again
            is read ahead.
        image_size: Height and width of ``x`` (an int: both). None: as stored, which needs images
            of one size. Images are resized bilinearly with antialiasing and without keeping their
            ratio; choose a ``crop`` to keep it.
        crop: None; "center": the central square of 0.875 × the short side; "random_resized"
            (training): 8 to 100 % of the area at a ratio of 3/4 to 4/3, another box in each pass.
            Crops are resized to ``image_size`` or the stored size.
        label: "int", or "onehot" for ``y`` float32[b, classes].
        as_dict: Batches are dicts: ``image``, ``label`` (the same ``x`` and ``y``), ``key``
            object[b] of bytes (the path below the input root), ``size`` int64[b, 2] (stored height
            and width), and ``weight`` in evaluation. Rows of padding have the key b"".
        eval_remainder: Evaluation: "pad", or "partial" for a smaller last batch with weights of 1
            (one host only).
        threads: Decoding threads; by default one per core.

    Raises:
        DatasetError: no dataset, or a shard of another size. While reading: names file, record,
            key, what was expected and what was found.
        UsageError: a wrong argument; no such split; images of varying size without image_size; one
            process of several, without ``host`` and without a framework that says which.
    """
    found = opened(dataset)
    chosen = found.splits[split]
    training = is_training(split, training)
    here, batch_size = find_host(host), positive("batch_size", batch_size)
    index, hosts = here.index, here.count
    window_bytes, seed = byte_count("shuffle_buffer", shuffle_buffer), integer("seed", seed)
    pad = choice("eval_remainder", eval_remainder, ("pad", "partial")) == "pad"
    share = host_batch(batch_size, hosts, here.replicas)
    threads = min(cores(), _MAX_THREADS) if threads is None else thread_count(threads)
    start = integer("start_step", start_step, least=0)
    image = found.manifest.image
    size = shown_size(found, image_size)
    stored = None if image.height is None or image.width is None else (image.height, image.width)
    crop = crop_kind(crop, training=training)
    options = ImageOptions.needed(stored, size, crop, order.crop_seed(seed, index))
    classes = len(found.classes)
    form = BatchForm(
        classes if choice("label", label, ("int", "onehot")) == "onehot" else None, flag("as_dict", as_dict)
    )
    again = partial(
        array_batches, found, split, batch_size, training=training, epochs=epochs, seed=seed, host=(index, hosts),
        start_step=start, shuffle_buffer=window_bytes, image_size=size, crop=crop, label=label, as_dict=as_dict,
        eval_remainder=eval_remainder, threads=threads,
    )  # fmt: skip
    check_split(found, chosen)
    decoder = RecordDecoder(
        BlockReader(found.url), image_decoder(image.format), (*size, image.channels), classes, options,
        columns=as_dict or (options is not None and stored is None),
    )  # fmt: skip
    readers = _REMOTE_READERS if storage.is_remote(found.url) else _LOCAL_READERS
    decoded = partial(batches, decoder=decoder, batch_size=share, readers=readers, threads=threads)

    if training:
        steps = training_steps(split, chosen.num_records, share, hosts, epochs, start)
        watch = None if epochs is None else Repeats(split, epochs)

        def read() -> Iterator[Batch]:
            windows = training_windows(
                chosen.shards, seed=seed, window_bytes=window_bytes, host=index, hosts=hosts, start=start * share,
                count=None if steps is None else steps * share,
            )  # fmt: skip
            with closing(decoded(windows, range(start * share, _FOREVER))) as stream:
                for step, columns in enumerate(stream, 1):
                    if watch is not None:
                        watch(step == 1, step == steps)
                    yield form(columns)
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
        none = decoder.no_rows()
        mine = host_range(chosen.num_records, index, hosts)

        def read() -> Iterator[Batch]:
            windows = evaluation_windows(chosen.shards, host=index, hosts=hosts)
            with closing(decoded(windows, mine)) as stream:
                for _ in range(plan.steps):
                    # This host's records can be used up before those of another one.
                    yield form(next(stream, none), weight=plan.weight, rows=share if pad else 0)

    return ArrayBatches(again, read, steps=steps, batch_size=share, image_shape=decoder.shape)
