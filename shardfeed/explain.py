"""``explain_errors``: TensorFlow's own error in mid-stream, told again with the file and the record that caused it.

The one decision: look after the failure, not before. TensorFlow names neither file nor record («corrupted record at 12»), and
checking each record twice while all is well would cost what reading costs. Once a stream has failed, the shards are read with
our own scanner and TensorFlow's decoder until the damage is found; what it cannot find stays TensorFlow's error, unchanged.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from shardfeed import storage
from shardfeed.array_blocks import BlockReader, blocks_in
from shardfeed.dataset_info import DatasetInfo, opened
from shardfeed.errors import DatasetError, clip
from shardfeed.manifest import ImageInfo, Shard
from shardfeed.mirror import copies_read
from shardfeed.runtime import cores
from shardfeed.verify_record import Look, RecordCheck, RecordProblem
from shardfeed.warning import warn

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's names, by channels
_REFUSAL = re.compile(r"^\{\{.*?\}\} ?| ?\[Op:\w+\].*$", re.DOTALL)  # what TensorFlow puts around its message
_REMOTE_THREADS = 16  # shards read at a time on gs://, where reading waits for the network


@contextlib.contextmanager
def explain_errors(dataset: DatasetInfo | str | os.PathLike[str], split: str | None = None) -> Iterator[None]:
    """Names the damaged record where reading with ``load`` fails in the ``with`` block, in a copy of ``cache=PATH`` too.

        with shardfeed.explain_errors(info):
            model.fit(train, ...)

    Nothing happens until an error of a tf.data stream passes. Then the shards are read again, until the first damage in their
    order, and that is raised instead, with TensorFlow's error as its cause. Errors of any other origin pass as they are, and so
    does this one, with a warning, when every record is in order (a faulty disk or memory, or a ``map`` of your own).

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
        if not _of_a_stream(error):
            raise
        shards = [shard for one in splits for shard in one.shards]
        damage = _damage_of_copies(found, shards)
        if damage is None:
            check = None if _of_framing(error) else RecordCheck(found.manifest, _look(found.manifest.image))
            damage = _first_damage(BlockReader(found.url), shards, check, storage.is_remote(found.url))
        if damage is not None:
            raise damage from error
        records = sum(one.num_records for one in splits)
        warn(
            f"reading failed, but all {records:,} records of {', '.join(one.name for one in splits)} at {clip(found.url)} are in "
            "order now: the cause is a disk or memory that errs at times, or what was added behind shardfeed.load."
        )
        raise


def _of_a_stream(error: Exception) -> bool:
    """True for what a tf.data iterator raised; a model's own error has another operation in its text."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return False
    if isinstance(error, UnicodeDecodeError):
        # TensorFlow quotes a record that is no Example, and Python cannot read its message.
        return b"Could not parse example input" in error.object
    return isinstance(error, tensorflow.errors.OpError) and "IteratorGetNext" in str(error)


def _of_framing(error: Exception) -> bool:
    return isinstance(error, sys.modules["tensorflow"].errors.DataLossError)


def _damage_of_copies(found: DatasetInfo, shards: list[Shard]) -> DatasetError | None:
    """The first damage of copies (``cache=PATH``) that this process reads. A copy with right checksums is the original."""
    for folder, copied in copies_read(found, shards).items():
        remedy = f"It is a copy of {clip(found.url)}, made by cache=: delete it, and the next load copies it again."
        if damage := _first_damage(BlockReader(folder, remedy), copied, None, False):
            return damage
    return None


def _first_damage(
    reader: BlockReader, shards: list[Shard], check: RecordCheck | None, remote: bool
) -> DatasetError | None:
    """The first damage in the order of ``shards``; without ``check`` only checksums are compared, which is much faster."""
    stop = threading.Event()

    def look(shard: Shard) -> DatasetError | None:
        try:
            for block in blocks_in([shard]):
                for record in reader.read(block):
                    if stop.is_set():
                        return None
                    try:
                        if check is not None:
                            check(bytes(record.data))
                    except RecordProblem as problem:
                        return reader.damage(record, problem.what, problem.expected, problem.found)
        except DatasetError as error:
            return error
        return None

    threads = _REMOTE_THREADS if remote else cores()
    with ThreadPoolExecutor(threads, "shardfeed-explain") as pool:
        try:
            return next((damage for damage in pool.map(look, shards) if damage is not None), None)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _look(image: ImageInfo) -> Look | None:
    """How TensorFlow, which refused a record, decodes one; a trainer's machine need not have Pillow."""
    if image.format == "raw":
        return None
    tf: Any = sys.modules["tensorflow"]
    decode = {"jpeg": tf.io.decode_jpeg, "png": tf.io.decode_png, "webp": getattr(tf.io, "decode_webp", None)}[
        image.format
    ]

    def look(data: bytes, size: tuple[int, int]) -> tuple[int, int, str]:
        try:
            *_, height, width, channels = decode(data).shape
        except tf.errors.OpError as error:
            raise ValueError(_REFUSAL.sub("", error.message)) from None
        return height, width, _MODES[channels]

    return look
