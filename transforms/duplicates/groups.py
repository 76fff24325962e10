"""Sets that are joined: a union-find on NumPy arrays, many joins at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Groups:
    """Groups of the numbers 0 to ``count`` - 1; at first each is alone.

    A group is named by its smallest number, so the order of the joins does not matter.
    """

    def __init__(self, count: int) -> None:
        self._parent = np.arange(count)

    def names(self, numbers: Numbers) -> Numbers:
        """The group of each number."""
        root = self._parent[numbers]
        while True:
            above = self._parent[root]
            if np.array_equal(above, root):
                break
            root = above
        self._parent[numbers] = root
        return root

    def join(self, one: Numbers, two: Numbers) -> None:
        """Joins the groups of ``one[i]`` and ``two[i]``, for all i."""
        while len(one):
            one, two = self.names(one), self.names(two)
            apart = one != two
            one, two = one[apart], two[apart]
            # Of several joins of one group, the last is made now and the others in the next round.
            self._parent[np.maximum(one, two)] = np.minimum(one, two)

    def all(self) -> Numbers:
        """The group of each number, from 0 on."""
        return self.names(np.arange(len(self._parent)))
