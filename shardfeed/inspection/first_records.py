"""The first records of a split, to look at: no TensorFlow, one request per block of a megabyte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from shardfeed.arguments import positive
from shardfeed.arrays.blocks import BlockReader, LoadedRecord
from shardfeed.dataset.info import DatasetInfo
from shardfeed.decoding import RecordProblem
from shardfeed.format.example import decode_example


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record: its columns. ``image``: as stored (encoded).

    ``classes``, ``labels``: of each of its labels, in the same order.
    """

    key: bytes
    classes: tuple[int, ...]
    labels: tuple[str, ...]
    height: int
    width: int
    image: bytes

    @property
    def caption(self) -> str:
        """Each class with its label; empty without labels."""
        return ", ".join(f"{index} {label}" for index, label in zip(self.classes, self.labels, strict=True))


def first_records(dataset: DatasetInfo, split: str, n: int) -> list[StoredRecord]:
    """The first ``n`` records of ``split``, or all of them if there are fewer.

    Records are stored in the order of their keys' hashes, so the first ones are a fair sample.

    Raises:
        DatasetError: the first damage found.
        UsageError: no such split, or ``n`` below 1.
    """
    return list(islice(_records(dataset, split), positive("n", n)))


def _records(dataset: DatasetInfo, split: str) -> Iterator[StoredRecord]:
    reader = BlockReader(dataset.url)
    blocks = dataset.splits[split].blocks()
    for block, skip, take in zip(blocks, blocks.skip.tolist(), blocks.records.tolist(), strict=True):
        for record in reader.read(block).part(skip, take):
            try:
                yield _stored(record)
            except (ValueError, LookupError, AttributeError) as error:
                problem = RecordProblem("record", "a tf.train.Example of a build", str(error))
                raise reader.damage(record, problem) from None


def _stored(record: LoadedRecord) -> StoredRecord:
    columns = decode_example(bytes(record.data))
    height, width = columns["size"]
    return StoredRecord(
        key=columns["key"][0],
        classes=tuple(columns.get("class", ())),
        labels=tuple(label.decode() for label in columns.get("label", ())),
        height=height,
        width=width,
        image=columns["image"][0],
    )
