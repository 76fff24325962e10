"""Which extra columns a reader hands out, and with how many values per record.

Batches have fixed shapes. So a column of lists of any length needs ``max_len``, the number of
values that each record is filled up to: with 0, False or b"".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardfeed.arguments import positive, unexpected
from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import UsageError, clip
from shardfeed.format.columns import Column

LONGER = "is longer than its max_len"  # what every reader says of such a list; it is no damage
_NUMPY = {"bytes": "O", "string": "O", "int64": "int64", "float": "float32", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column and the number of its values in a batch; ``length`` None = one, no dimension."""

    column: Column
    length: int | None

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def dtype(self) -> str:
        """NumPy's type of the values; texts and bytes are objects (bytes)."""
        return _NUMPY[self.column.type]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a record's values."""
        return () if self.length is None else (self.length,)

    @property
    def varies(self) -> bool:
        """Whether records hold lists of any length."""
        return self.column.shape == (None,)

    def padded(self, feature: list[Any]) -> list[Any]:
        """The values of a record, filled up.

        Raises:
            UsageError: a list of any length is longer than ``max_len``.
            ValueError: there are more or fewer values than there must be.
        """
        expected = 1 if self.length is None else self.length
        if self.varies and len(feature) > expected:
            raise UsageError(
                f"column {self.name}: a list of {len(feature)} values {LONGER}, {expected}. Pass a larger "
                "max_len, or leave the column out with columns=."
            )
        if len(feature) != expected and not self.varies:
            raise ValueError(f"column {self.name}: expected {expected} values, found {len(feature)}")
        filler = b"" if self.dtype == "O" else 0
        return feature + [filler] * (expected - len(feature))


def shown_columns(found: DatasetInfo, columns: object, max_len: object, *, as_dict: bool) -> tuple[ShownColumn, ...]:
    """The extra columns of batches as dicts, by name.

    ``columns``: their names; None = all. ``max_len``: an int for all lists of varying length, or a
    dict of them by name.

    Raises:
        UsageError: a name that no column has; a column that needs ``max_len``; both without
            ``as_dict``.
    """
    if not as_dict:
        for name, value in (("columns", columns), ("max_len", max_len)):
            if value is not None:
                raise UsageError(f"{name} is for batches with extra columns. Pass as_dict=True too, or leave it out.")
        return ()
    every = {column.name: column for column in found.columns}
    names = chosen_names(columns, tuple(every), found)
    lengths = _lengths(max_len, [name for name in names if every[name].shape == (None,)])
    return tuple(ShownColumn(every[name], _length(every[name], lengths)) for name in sorted(names))


def chosen_names(columns: object, allowed: tuple[str, ...], found: DatasetInfo) -> tuple[str, ...]:
    """The argument ``columns``: some of the ``allowed`` names, each once; None = all.

    Raises:
        UsageError: it is something else.
    """
    if columns is None:
        return allowed
    names = tuple(columns) if isinstance(columns, (tuple, list)) else (columns,)
    if not all(isinstance(name, str) and name in allowed for name in names) or len(set(names)) < len(names):
        known = ", ".join(allowed) or f"none: the dataset at {clip(found.url)} has no extra columns"
        raise unexpected("columns", columns, f"a list of names, each once, of {known}")
    return names


def _lengths(max_len: object, varying: list[str]) -> Mapping[str, int]:
    if isinstance(max_len, Mapping):
        if unknown := [name for name in max_len if name not in varying]:
            allowed = ", ".join(varying) or "none"
            raise unexpected(
                "max_len", max_len, f"lengths of columns whose lists vary ({allowed}), not {clip(unknown[0])}"
            )
        lengths = {name: positive(f"max_len[{name!r}]", value) for name, value in max_len.items()}
    else:
        lengths = {} if max_len is None else dict.fromkeys(varying, positive("max_len", max_len))
    if missing := [name for name in varying if name not in lengths]:
        raise UsageError(
            f"column {clip(missing[0])} holds lists of varying length, and a batch has one shape: pass max_len=, an int or "
            f"{{{missing[0]!r}: 16}}, or leave the column out with columns=."
        )
    return lengths


def _length(column: Column, lengths: Mapping[str, int]) -> int | None:
    if not column.shape:
        return None
    (size,) = column.shape
    return lengths[column.name] if size is None else size
