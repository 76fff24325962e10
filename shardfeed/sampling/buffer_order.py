"""The order in which TensorFlow's shuffle buffer gives the records of a window, without TensorFlow.

The buffer holds the whole window, so its order is a permutation that depends on two seeds: each
place swaps with one behind it, which a random number chooses. The numbers are those of Philox 4x32
with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), four at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SECOND_SEED = 1  # of the two that the buffer takes; both 0 would mean "random"

_FACTORS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def buffer_order(count: int, seed: int) -> Sequence[int]:
    """0 … count - 1 as a buffer of ``count`` records with the seeds ``seed`` and 1 gives them."""
    order = list(range(count))
    chosen = np.arange(count) + (_philox(count, seed) % np.arange(count, 0, -1, dtype=np.uint64)).astype(np.int64)
    for place, other in enumerate(chosen.tolist()):
        order[place], order[other] = order[other], order[place]
    return order


def _philox(count: int, seed: int) -> NDArray[np.uint64]:
    """The first ``count`` random numbers, of 32 bits each."""
    calls = np.arange(-(-count // 4), dtype=np.uint64)
    none = np.zeros_like(calls)
    words = calls, none, none + np.uint64(SECOND_SEED), none
    keys = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(_ROUNDS):
        first, second = words[0] * np.uint64(_FACTORS[0]), words[2] * np.uint64(_FACTORS[1])
        words = (
            second >> _HALF ^ words[1] ^ np.uint64(keys[0]), second & _LOW,
            first >> _HALF ^ words[3] ^ np.uint64(keys[1]), first & _LOW,
        )  # fmt: skip
        keys = (keys[0] + _KEY_STEPS[0]) & 0xFFFFFFFF, (keys[1] + _KEY_STEPS[1]) & 0xFFFFFFFF
    return np.stack(words, axis=1).reshape(-1)[:count]
