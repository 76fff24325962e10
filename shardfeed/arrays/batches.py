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
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.accelerator.hosts import check_same_worker, dataloader_worker, find_host
from shardfeed.arguments import byte_count, choice, crop_kind, flag, integer, is_training, positive, thread_count
from shardfeed.arrays.forms import Batch
from shardfeed.arrays.state import StreamName
from shardfeed.arrays.streams import Reading, SplitStream
from shardfeed.arrays.user_map import Empty, UserMap
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.reader_arguments import cache_place, shown_size
from shardfeed.dataset.shown_columns import shown_columns
from shardfeed.errors import UsageError
from shardfeed.runtime import cores
from shardfeed.sampling import order
from shardfeed.sampling.steps import host_batch
from shardfeed.sampling.streams import is_elastic
from shardfeed.words import plural

_MAX_THREADS = 64


class ArrayBatches:
    """What ``array_batches`` gives: an iterable; ``len`` is its number of batches if it ends.

    Attributes:
        batch_size: Rows per batch on this host.
        image_shape: Height, width and channels of one image, before ``map``.
    """

    def __init__(
        self,
        again: partial[ArrayBatches],
        read: Reading,
        name: StreamName,
        *,
        start: int,
        end: int | None,
        batch_size: int,
        image_shape: tuple[int, int, int],
    ) -> None:
        self.batch_size, self.image_shape = batch_size, image_shape
        self._again, self._read, self._name = again, read, name
        self._start, self._end = start, end
        self._next = self._step = start  # first step of the next reading; step of the last batch + 1
        self._made_in = dataloader_worker()

    # another process opens the dataset anew
    def __reduce__(self) -> tuple[partial[ArrayBatches], tuple[()], dict[str, int]]:
        return self._again, (), {"_next": self._next, "_step": self._step}

    def __repr__(self) -> str:
        found, split, _ = self._again.args
        many = "endless batches" if self._end is None else plural(len(self), "batch", "es")
        return f"ArrayBatches({many} of {self.batch_size} from {split} of {found.url})"

    # without it Python asks for the length, which an endless stream does not have
    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        if self._end is None:
            raise TypeError("a training stream without epochs= has no end and no length")
        return self._end - self._start

    def __iter__(self) -> Iterator[Batch]:
        return self.reading(np.empty)

    def reading(self, empty: Empty) -> Generator[Batch, None, None]:
        """``iter`` of this, with arrays of images that ``empty(shape, dtype)`` makes."""
        check_same_worker(self._made_in)
        begin, self._next = self._next, self._start
        self._step = begin
        return self._counted(begin, empty)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest reading is: the state before the batch that comes next.

        About 70 bytes as JSON, more for a long name of a split. PyTorch's StatefulDataLoader and
        Lightning call this.
        """
        return self._name.state(self._step)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next reading begin where ``state`` was saved; those after it begin as ever.

        Raises:
            UsageError: the state is that of another dataset, split, batch size, seed, shuffle
                buffer or, where one of the two is not elastic, number of hosts; or it is behind the
                stream's end.
        """
        step = self._name.step(state)
        if self._end is not None and step > self._end:
            raise UsageError(
                f"load_state_dict: the state is before step {step}, and this stream ends after {plural(self._end, 'step')}. "
                "Give it more epochs, or begin anew without the state."
            )
        self._next = self._step = step

    def _counted(self, begin: int, empty: Empty) -> Generator[Batch, None, None]:
        if begin == self._end:
            return
        with closing(self._read(begin, empty)) as stream:
            for step, batch in enumerate(stream, begin + 1):
                self._step = step
                yield batch


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
    columns: Sequence[str] | None = None,
    max_len: int | Mapping[str, int] | None = None,
    map: Callable[[NDArray[np.uint8], int], Any] | None = None,
    map_batches: Callable[[Any, int], Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
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
    hosts, in the order of the shards. ``w`` is float32[b]: 0 on the rows that fill batches up, and
    (number of rows / number of records) on the others. So a mean of ``w * loss`` over all batches and hosts is the mean
    over the records.

    Images that are not resized have the pixels of ``load``, bit for bit; a resized value may differ
    by 1 level. The order inside a window of ``shuffle_buffer`` bytes is another one. Row for row,
    the random numbers of crops are the same.

    Args:
        dataset: What ``shardfeed.info`` gave, or an address that it takes.
        split: Name of the split, or a part of it such as "train[:10%]" (see ``info.splits``).
        batch_size: Records per batch over all hosts.
        training: True or False chooses the form. By default "train" is trained on; "validation",
            "valid", "val", "dev", "test" and "eval" are evaluated; any other name needs this
            argument.
        epochs: Training: end after this many passes; None = never. Read such a stream once: each
            reading is the same, and a second one warns.
        seed: Training: seed of the order and of random crops.
        host: As for ``load``: (index, count); None or "auto" asks the frameworks that run here.
        start_step: Training: begin with this batch, as if those before had been read. Needs the
            same batch size; the number of hosts may change as for ``load``.
        shuffle_buffer: Training: bytes shuffled together over all hosts ("64MB", "1GB" or an int);
            at least a block (1 MB) of each stream. As much again is read ahead.
        image_size: Height and width of ``x`` (an int: both). None: as stored, which needs images
            of one size. Images are resized bilinearly with antialiasing and without keeping their
            ratio; choose a ``crop`` to keep it.
        crop: None; "center": the central square of 0.875 × the short side; "random_resized"
            (training): 8 to 100 % of the area at a ratio of 3/4 to 4/3, another box in each pass.
            Crops are resized to ``image_size`` or the stored size.
        label: "int", or "onehot" for ``y`` float32[b, classes]. If records have several labels,
            ``y`` is float32[b, classes] with a 1 for each label. Without labels, batches are ``x``
            alone.
        as_dict: Batches are dicts: ``image``, ``label`` (the same ``x`` and ``y``), ``key``
            object[b] of bytes (the path below the input root), ``size`` int64[b, 2] (stored height
            and width), and ``weight`` in evaluation. Rows of padding have the key b"". The extra
            columns of the dataset (``info.columns``) are there under their own names: int64,
            float32, bool or object (bytes), [b], or [b, n] for lists.
        columns: With as_dict: names of the extra columns to give; None = all.
        max_len: With as_dict: lists of varying length are filled up to so many values, with 0,
            False or b""; an int, or a dict by column. A longer list is an error.
        map: ``map(image, seed)`` is called for each image, in the decoding threads. It gets
            uint8[height, width, channels], its own to change, and returns an array; all of a batch
            have one shape and type. ``seed``, an int below 2**64, is a hash of ``seed`` and the
            image's position in the stream: take random numbers from it, for example by
            ``numpy.random.default_rng(seed)``, and a resumed stream has the same.
        map_batches: ``map_batches(batch, seed)`` is called for each batch as it would be handed
            out, in threads too; what it returns is handed out.
        cache: None; "decoded": images are kept in host memory from their first decoding on (for
            small sets; on each host up to the whole split in training, its share in evaluation);
            a local folder: whole shards are first copied there and checked. The order is the same
            in all three. ``map`` sees each image anew.
        eval_remainder: Evaluation: "pad", or "partial" for a smaller last batch with weights of 1
            (one host only).
        threads: Decoding threads; by default one per core.

    Raises:
        DatasetError: no dataset, or a shard of another size. While reading: names file, record,
            key, what was expected and what was found.
        UsageError: a wrong argument; no such split; images of varying size without image_size;
            ``map`` or ``map_batches`` failed, with the record's key and their error as cause; one
            process of several, without ``host`` and without a framework that says which.
    """
    found = opened(dataset)
    chosen = found.splits[split]
    training = is_training(split, training)
    here, batch_size = find_host(host), positive("batch_size", batch_size)
    window_bytes, seed = byte_count("shuffle_buffer", shuffle_buffer), integer("seed", seed)
    pad = choice("eval_remainder", eval_remainder, ("pad", "partial")) == "pad"
    share = host_batch(batch_size, here.count, here.replicas)
    threads = min(cores(), _MAX_THREADS) if threads is None else thread_count(threads)
    start = integer("start_step", start_step, least=0)
    size, crop = shown_size(found, image_size), crop_kind(crop, training=training)
    image_map, batch_map = UserMap.given("map", map), UserMap.given("map_batches", map_batches)
    onehot, as_dict = choice("label", label, ("int", "onehot")) == "onehot", flag("as_dict", as_dict)
    cache = cache_place(cache)
    again = partial(
        array_batches, found, split, batch_size, training=training, epochs=epochs, seed=seed, host=(here.index, here.count),
        start_step=start, shuffle_buffer=window_bytes, image_size=size, crop=crop, label=label, as_dict=as_dict,
        columns=columns, max_len=max_len, map=map,
        map_batches=map_batches,
        cache=cache, eval_remainder=eval_remainder, threads=threads,
    )  # fmt: skip
    stream = SplitStream(
        found, chosen, here, share, threads, size=size, crop=crop, crop_seed=order.crop_seed(seed), onehot=onehot,
        columns=shown_columns(found, columns, max_len, as_dict=as_dict),
        as_dict=as_dict, image_map=image_map, batch_map=batch_map, cache=cache,
    )  # fmt: skip
    name = partial(StreamName, found.fingerprint, split, batch_size)
    read: Reading
    end: int | None
    if training:
        read, end = stream.train(epochs, seed, window_bytes, start)
        stream_name = name(seed, window_bytes, None if is_elastic(len(stream.blocks), here.count) else here.count)
    else:
        read, end = stream.evaluate(pad=pad, epochs=epochs, start=start)
        stream_name = name(None, None, here.count)
    shape = (*size, found.manifest.image.channels)
    return ArrayBatches(again, read, stream_name, start=start, end=end, batch_size=share, image_shape=shape)
