"""The shape in which batches are handed out: tuple or dict, labels, weights, padding, and what a
user's ``map_batches`` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.arrays.decoder import Columns
from shardfeed.arrays.user_map import UserMap
from shardfeed.sampling.boxes import map_seeds

Batch = Any
"""A tuple of arrays, or a dict of them by name; with ``map_batches``, whatever that returns."""


@dataclass(frozen=True)
class BatchForm:
    """Makes what is handed out of a batch's columns.

    Attributes:
        onehot: Number of classes for one-hot labels; None = labels as they are.
        as_dict: A dict of all columns, not a tuple of image, label and weight.
        weight: Of each row in evaluation; None = there are no weights.
        rows: In evaluation, batches are filled up to so many with zeros (b"" for keys).
        map: The user's function for each batch, with seeds by ``seed`` (``order.crop_seed``).
    """

    onehot: int | None
    as_dict: bool
    weight: float | None
    rows: int
    map: UserMap | None
    seed: int

    def __call__(self, columns: Columns, position: int, where: Callable[[], str]) -> Batch:
        """The batch of ``columns`` whose first row, found at ``where``, has this ``position``."""
        if self.onehot is not None:
            columns = columns | {"label": (columns["label"][:, None] == np.arange(self.onehot)).astype(np.float32)}
        if self.weight is not None:
            real = len(columns["image"])
            columns = {name: _filled(values, self.rows) for name, values in columns.items()}
            columns["weight"] = (np.arange(len(columns["image"])) < real) * np.float32(self.weight)
        batch: Batch = columns
        if not self.as_dict and "label" not in columns:  # (x, w) would be taken for images and labels
            batch = columns["image"]
        elif not self.as_dict:
            batch = tuple(columns[name] for name in ("image", "label", "weight") if name in columns)
        if self.map is None:
            return batch
        seed = int(map_seeds(np.array([position], np.int64), self.seed)[0, 1])
        return self.map(batch, seed, lambda: f"the batch that begins with {where()}")


def _filled(values: NDArray[Any], rows: int) -> NDArray[Any]:
    missing = rows - len(values)
    if missing <= 0:  # only the last batch pays for a copy of its pixels
        return values
    nothing = b"" if values.dtype == object else 0
    return np.concatenate([values, np.full((missing, *values.shape[1:]), nothing, values.dtype)])
