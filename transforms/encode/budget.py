"""How many bytes of images a process has in memory, whatever their sizes and the number of threads.

Sources that were read and pixels that were decoded have a budget each. A thread always takes from
the first before the second, so no two threads wait for each other. The threads of a process share
both budgets; processes on one machine share the limits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

SOURCE_BUDGET = 128 << 20  # bytes of sources in memory at once; a larger source waits until it is alone
PIXEL_BUDGET = 256 << 20  # bytes of pixels, and of what decoding takes, at once; a larger image waits until it is alone


class MemoryBudget:
    """A semaphore in bytes. A request above the whole budget waits until it is alone."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used, self._free = limit, 0, threading.Condition()

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Holds ``size`` bytes in the block."""
        self.take(size)
        try:
            yield
        finally:
            self.give(size)

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
