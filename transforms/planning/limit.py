"""How many images a build may leave out: ``--max_rejected`` and ``--max_unmatched``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

DEFAULT_SHARE = Fraction(1, 100)
DEFAULT_FLOOR = 10  # images; so that by default three bad ones of fifty do not fail a build


@dataclass(frozen=True, slots=True)
class Limit:
    """A count, or a share of the images with a floor in images. The default is that of rejects."""

    count: int | None = None
    share: Fraction = DEFAULT_SHARE
    floor: int = DEFAULT_FLOOR

    def images(self, candidates: int) -> int:
        """The limit in images."""
        if self.count is not None:
            return self.count
        return max(self.floor, math.floor(candidates * self.share))
