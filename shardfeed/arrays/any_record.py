"""All columns of records with several labels, with none, or with extra columns.

Each record is parsed by itself, because extra columns may lie anywhere between ours. That holds the
interpreter for some 10 µs per record; records of our plain layout have a faster way (``parsing``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.arrays.blocks import BlockReader, LoadedBlock
from shardfeed.arrays.parsing import column_values
from shardfeed.dataset.shown_columns import ShownColumn
from shardfeed.decoding import Bytes, RecordProblem
from shardfeed.errors import UsageError
from shardfeed.format.example import decode_example


@dataclass(frozen=True)
class RecordForm:
    """What is taken of a record: labels by ``label_kind`` of ``classes``, and extra columns."""

    label_kind: str
    classes: int
    columns: tuple[ShownColumn, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether ``parsing`` finds all of it."""
        return self.label_kind == "single" and not self.columns

    def empty(self, rows: int, *, keyed: bool) -> dict[str, Any]:
        """The columns of ``rows`` records, still without values: label, and the extra columns.

        ``keyed``: also key, and size.
        """
        made: dict[str, Any] = {}
        if self.label_kind == "single":
            made["label"] = np.zeros(rows, np.int32)
        elif self.label_kind == "multi":
            made["label"] = np.zeros((rows, self.classes), np.float32)
        for shown in self.columns:
            filler = b"" if shown.dtype == "O" else 0
            made[shown.name] = np.full((rows, *shown.shape), filler, shown.dtype)
        if keyed:
            made |= {"key": np.full(rows, b"", object), "size": np.zeros((rows, 2), np.int64)}
        return made

    def put(self, made: dict[str, Any], row: int, found: dict[str, list[Any]]) -> None:
        """Sets one row of ``made`` from a parsed record.

        Raises:
            ValueError: a column has not the values that it must have.
        """
        if self.label_kind != "none":
            made["label"][row] = self.label(found)
        for shown in self.columns:
            values = shown.padded(found.get(shown.name, []))
            made[shown.name][row] = values if shown.shape else values[0]

    def label(self, found: dict[str, list[Any]]) -> Any:
        """The class index of a parsed record, or float32[classes] with a 1 for each of its classes.

        Raises:
            RecordProblem: an index is no class.
            ValueError: there is not one index where one must be.
        """
        several = self.label_kind == "multi"
        numbers = found.get("class", []) if several else column_values(found, "class", int, 1)
        for number in numbers:
            if not 0 <= number < self.classes:
                raise RecordProblem("class", f"0 to {self.classes - 1}", str(number))
        if not several:
            return numbers[0]
        label = np.zeros(self.classes, np.float32)
        label[numbers] = 1
        return label


def any_columns(
    blocks: Sequence[LoadedBlock], reader: BlockReader, form: RecordForm
) -> tuple[list[Bytes], dict[str, Any]]:
    """Images of all records of ``blocks``, in order, and the columns of ``form``, key and size.

    Raises:
        DatasetError: names a record that is not as it should be.
        UsageError: a list is longer than ``max_len``.
    """
    rows = sum(map(len, blocks))
    images: list[Bytes] = []
    made = form.empty(rows, keyed=True)
    for record in (record for block in blocks for record in block):
        row = len(images)
        try:
            found = decode_example(bytes(record.data))
            (image,) = column_values(found, "image", bytes, 1)
            (made["key"][row],) = column_values(found, "key", bytes, 1)
            made["size"][row] = column_values(found, "size", int, 2)
            form.put(made, row, found)
        except RecordProblem as problem:
            raise reader.damage(record, problem) from None
        except UsageError:  # which is a ValueError: a list is longer than max_len
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise reader.damage(record, RecordProblem("record", "the columns of the dataset", str(error))) from None
        images.append(image)
    return images, made
