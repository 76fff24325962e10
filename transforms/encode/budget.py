"""How many bytes of images a process has in memory, whatever their sizes and the number of threads.

Sources that were read and pixels that were decoded have a budget each. A thread always takes from
the first before the second, so no two threads wait for each other. The threads of a process share
both budgets; processes on one machine share the limits.
"""

from __future__ import annotations

import threading

SOURCE_BUDGET = 128 << 20  # bytes of sources in memory at once; one source is at most 64 MB
PIXEL_BUDGET = 256 << 20  # bytes of decoded pixels at once; one image is at most 64 Mpx x 3 = 192 MB


class Budget:
    """A semaphore in bytes. A request above the whole budget waits until it is alone."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used, self._free = limit, 0, threading.Condition()

    def hold(self, size: int) -> _Held:
        """A context manager that holds ``size`` bytes."""
        return _Held(self, size)

    def take(self, size: int) -> None:
        """Waits until ``size`` bytes are free, and takes them."""
        with self._free:
            while self._used and self._used + size > self._limit:
                self._free.wait()
            self._used += size

    def give(self, size: int) -> None:
        """Gives ``size`` bytes back."""
        with self._free:
            self._used -= size
            self._free.notify_all()


class _Held:
    """A with block's share of a budget; a generator-based manager costs three times as much."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget, self._size = budget, size

    def __enter__(self) -> None:
        self._budget.take(self._size)

    def __exit__(self, *_: object) -> None:
        self._budget.give(self._size)
