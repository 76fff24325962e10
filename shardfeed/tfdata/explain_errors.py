"""``explain_errors``: TensorFlow's error in mid-stream, with the file and record that caused it.

It looks after the failure, not before. TensorFlow names neither file nor record ("corrupted record
at 12"), and checking each record twice while all is well would cost as much as reading. Once a
stream has failed, the shards are read as ``verify --deep`` reads them until the damage is found.
If nothing is found, TensorFlow's error passes unchanged.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from shardfeed import storage
from shardfeed.arrays.blocks import BlockReader
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.local_copy import copies_read, copy_remedy
from shardfeed.dataset.same_dataset import same_dataset
from shardfeed.dataset.shown_columns import LONGER
from shardfeed.decoding import RecordProblem
from shardfeed.errors import DatasetError, clip
from shardfeed.format.manifest import Shard
from shardfeed.runtime import cores
from shardfeed.sampling.blocks import blocks_in
from shardfeed.verification.record import RecordCheck
from shardfeed.warning import warn

_REMOTE_THREADS = 16  # shards read at a time on gs://, where reading waits for the network
_SECONDS = 300.0  # a job that has failed is not held longer
_LOG = logging.getLogger("shardfeed")

clock = time.monotonic


@contextlib.contextmanager
def explain_errors(dataset: DatasetInfo | str | os.PathLike[str], split: str | None = None) -> Iterator[None]:
    """Name the damaged record if reading with ``load`` fails in the ``with`` block.

        with shardfeed.explain_errors(info):
            model.fit(train, ...)

    Nothing happens until a tf.data stream fails in a way that damage can cause. Then the shards
    are read again, until the first damage in their order. That is raised instead, with
    TensorFlow's error as its cause. All other errors pass at once, for example those of a store
    that does not answer and of memory that runs out. TensorFlow's error also passes, with a
    warning, if every record is in order (the disk or memory is faulty, or a ``map`` of your own
    failed), or if nothing was found in five minutes.

    Args:
        dataset: The dataset that is read.
        split: The only split to look into; by default all.

    Raises:
        DatasetError: names file, record, byte, key, expected, found and the remedy.
        UsageError: no such split.
    """
    found = opened(dataset)
    splits = list(found.splits.values()) if split is None else [found.splits[split]]
    try:
        yield
    except Exception as error:
        if not _may_be_damage(error):
            raise
        shards = [shard for one in splits for shard in one.shards]
        names, url = ", ".join(one.name for one in splits), clip(found.url)
        _LOG.warning(
            "Reading failed. Looking for the damaged record in %d shards of %s, for at most %.0f s.",
            len(shards), url, _SECONDS,
        )  # fmt: skip
        until = clock() + _SECONDS
        damage = _damage(found, shards, error, until)
        if damage is not None:
            try:
                raise damage.with_traceback(None) from error
            finally:
                # The traceback holds this frame, and the frame of the failed stream. If this frame held
                # the error too, only the garbage collector could end the stream. Run by one of the
                # stream's own threads, it would wait for that thread.
                del damage
        if clock() > until:
            text = (
                f"and no damage was found in the first {_SECONDS:.0f} s of looking through {names} at {url}. "
                f"shardfeed verify {url} --deep looks through all of it."
            )
        else:
            text = (
                f"but all {sum(one.num_records for one in splits):,} records of {names} at {url} are in order now: the cause is "
                "a disk or memory that errs at times, or what was added behind shardfeed.load."
            )
        warn(f"reading failed, {text}")
        raise


def _may_be_damage(error: Exception) -> bool:
    """Whether a tf.data iterator raised ``error``, and damage can be its cause.

    A model's own error has another operation in its text; a list that is too long for ``max_len`` is none.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return False
    if isinstance(error, UnicodeDecodeError):
        # TensorFlow quotes a record that is no Example, and Python cannot read its message.
        return b"Could not parse example input" in error.object
    # Wrong framing; a wrong image or class; a shard that is gone; one that ends between two
    # records.
    names = ("DataLossError", "InvalidArgumentError", "NotFoundError", "FailedPreconditionError")
    damaged = tuple(getattr(tensorflow.errors, name) for name in names)
    return isinstance(error, damaged) and "IteratorGetNext" in str(error) and LONGER not in str(error)


def _damage(found: DatasetInfo, shards: list[Shard], error: Exception, until: float) -> DatasetError | None:
    """The first damage of copies (``cache=PATH``) that this process reads, or of the dataset.

    None if nothing is found before the time ``until``. A copy with right checksums is the original.
    """
    for folder, copied in copies_read(found, shards).items():
        if damage := _first_damage(BlockReader(folder, copy_remedy(found)), copied, None, False, until):
            return damage
    try:
        same_dataset(found.url, found.fingerprint)
    except DatasetError as another:
        return another
    framing = isinstance(error, sys.modules["tensorflow"].errors.DataLossError)
    check = None if framing else RecordCheck(found.manifest)
    return _first_damage(BlockReader(found.url), shards, check, storage.is_remote(found.url), until)


def _first_damage(
    reader: BlockReader, shards: list[Shard], check: RecordCheck | None, remote: bool, until: float
) -> DatasetError | None:
    """The first damage in the order of ``shards``; None if none is found before ``until``.

    Without ``check``, only checksums are compared.
    """
    stop = threading.Event()

    def first_in(shard: Shard) -> DatasetError | None:
        try:
            for block in blocks_in([shard]):
                if stop.is_set() or clock() > until:
                    return None
                for record in reader.read(block):
                    try:
                        if check is not None:
                            check(bytes(record.data))
                    except RecordProblem as problem:
                        return reader.damage(record, problem)
        except DatasetError as error:
            return error
        return None

    threads = _REMOTE_THREADS if remote else cores()
    with ThreadPoolExecutor(threads, "shardfeed-explain") as pool:
        try:
            return next((damage for damage in pool.map(first_in, shards) if damage is not None), None)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
