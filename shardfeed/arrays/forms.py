"""The shape in which batches are handed out: tuple or dict, labels, weights, padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.decoder import Columns

Batch = Any
"""A tuple of arrays, or a dict of them by name."""


@dataclass(frozen=True)
class BatchForm:
    """Makes what is handed out of a batch's columns.

    Attributes:
        onehot: Number of classes for one-hot labels; None = class indices.
        as_dict: A dict of all columns, not a tuple of image, label and weight.
    """

    onehot: int | None
    as_dict: bool

    def __call__(self, columns: Columns, *, weight: float | None = None, rows: int = 0) -> Batch:
        """With a ``weight`` of each row; filled up to ``rows`` with zeros (b"" for keys) of weight 0."""
        if self.onehot is not None:
            columns = columns | {"label": (columns["label"][:, None] == np.arange(self.onehot)).astype(np.float32)}
        if weight is not None:
            real = len(columns["label"])
            columns = {name: _filled(values, rows) for name, values in columns.items()}
            columns["weight"] = (np.arange(len(columns["label"])) < real) * np.float32(weight)
        if self.as_dict:
            return columns
        return tuple(columns[name] for name in ("image", "label", "weight") if name in columns)


def _filled(values: NDArray[Any], rows: int) -> NDArray[Any]:
    missing = rows - len(values)
    if missing <= 0:  # only the last batch pays for a copy of its pixels
        return values
    nothing = b"" if values.dtype == object else 0
    return np.concatenate([values, np.full((missing, *values.shape[1:]), nothing, values.dtype)])
