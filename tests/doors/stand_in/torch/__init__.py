"""Stands in for PyTorch, which is 5 GB: of it, only what the page of ``records`` uses."""

from __future__ import annotations

from typing import Any

import numpy as np


class Tensor(np.ndarray):
    """An array with two methods of a tensor."""

    def permute(self, *axes: int) -> Any:
        return self.transpose(axes)

    def float(self) -> Any:
        return self.astype(np.float32)


def from_numpy(array: Any) -> Tensor:
    """As PyTorch does: an array that may not be written is refused."""
    assert array.flags.writeable
    return array.view(Tensor)  # type: ignore[no-any-return]
