"""Waiting and trying again, the one way all remote calls do it.

The client libraries' own retries are switched off: three policies on top of each other cannot be counted, tested or
explained. Ten attempts with doubling, jittered pauses ride out about a minute of «503» or «429», which is what a bucket
that is being scaled up answers; longer trouble is the user's to know about, and the run can be carried on.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

ATTEMPTS = 10
FIRST_PAUSE = 0.25  # seconds; doubles up to
LONGEST_PAUSE = 16.0

sleep = time.sleep  # looked up at every call, so that tests need not wait

T = TypeVar("T")


class _Waits(threading.local):
    count = 0


_WAITS = _Waits()


def wait(pause: float) -> None:
    """Waits before another attempt."""
    _WAITS.count += 1
    sleep(pause)


def waits() -> int:
    """How often this thread has waited so far: the caller's difference is what one call needed."""
    return _WAITS.count


def add_waits(count: int) -> None:
    """Counts for this thread what others waited in its place."""
    _WAITS.count += count


def pause_after(attempt: int) -> float:
    """Seconds to wait after the first, second … attempt; jitter keeps many workers from coming back all at once."""
    return min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.0)


def call_with_retries(action: Callable[[], T], is_transient: Callable[[Exception], bool]) -> T:
    """The result of ``action``, tried again after failures that ``is_transient``; the last failure passes."""
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except Exception as error:
            if not is_transient(error):
                raise
        wait(pause_after(attempt))
    return action()
