"""The first records of a split, to look at: no TensorFlow, one request for a few megabytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from shardfeed import storage
from shardfeed.arguments import positive
from shardfeed.dataset.info import DatasetInfo, info
from shardfeed.errors import DatasetError
from shardfeed.format.example import decode_example
from shardfeed.format.tfrecord import OVERHEAD, RecordError, scan
from shardfeed.storage.base import NotFoundError
from shardfeed.storage.seekable import open_file


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record: its columns and its place (``file``, ``offset`` in bytes).

    ``image``: as stored (encoded).
    """

    file: str
    offset: int
    key: bytes
    class_index: int
    label: str
    height: int
    width: int
    image: bytes


def first_records(directory: str | os.PathLike[str], split: str, n: int) -> list[StoredRecord]:
    """The first ``n`` records of ``split``, or all of them if there are fewer.

    Records are stored in the order of their keys' hashes, so the first ones are a fair sample.

    Raises:
        DatasetError: no dataset in ``directory``, or the first damage found.
        UsageError: no such split, or ``n`` below 1.
    """
    return list(islice(_records(info(directory), split), positive("n", n)))


def _records(dataset: DatasetInfo, split: str) -> Iterator[StoredRecord]:
    store = storage.open_store(dataset.url)
    remedy = f"shardfeed verify {dataset.url} --deep names all damage."
    for shard in dataset.splits[split].shards:
        try:
            end = 0
            with open_file(store, shard.file, shard.bytes) as file:
                for offset, data in scan(file):
                    yield _record(shard.file, offset, data)
                    end = offset + len(data) + OVERHEAD
            if end != shard.bytes:  # cut between two records, which no scan can see
                raise ValueError(f"{end} bytes, expected {shard.bytes}")
        except NotFoundError:
            raise DatasetError(f"{storage.join_url(dataset.url, shard.file)} is not there. {remedy}") from None
        except (RecordError, ValueError, KeyError) as error:
            raise DatasetError(f"{storage.join_url(dataset.url, shard.file)} is damaged: {error}. {remedy}") from None


def _record(file: str, offset: int, data: bytes) -> StoredRecord:
    columns: dict[str, Any] = {**decode_example(data)}
    height, width = columns["size"]
    return StoredRecord(
        file=file,
        offset=offset,
        key=columns["key"][0],
        class_index=columns["class"][0],
        label=columns["label"][0].decode(),
        height=height,
        width=width,
        image=columns["image"][0],
    )
