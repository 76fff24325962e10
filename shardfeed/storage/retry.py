"""How all remote calls wait and try again.

The client libraries' own retries are switched off: three policies on top of each other cannot be
counted, tested or explained. Ten attempts with doubling, jittered pauses last about a minute,
through the "503" and "429" of a bucket that is being scaled up. Longer trouble is reported to the
user, who can run the same command again.

A store that accepts requests and never answers costs a client's timeout at each attempt. So time is
limited too, and a process that waits says so in its log.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from shardfeed.errors import clip

ATTEMPTS = 10
FIRST_PAUSE = 0.25  # seconds; doubles up to LONGEST_PAUSE
LONGEST_PAUSE = 16.0
DEADLINE = 300.0  # seconds; after it no attempt begins that is not one of the LEAST_ATTEMPTS
LEAST_ATTEMPTS = 3  # some requests take long when all is well: an upload over a slow line

_LOGGED_AFTER = 5.0  # seconds of waiting
_BETWEEN_LINES = 60.0  # seconds between two lines of the log: many threads fail together

# Looked up at every call, so that tests need not wait.
sleep = time.sleep
clock = time.monotonic

T = TypeVar("T")

_LOG = logging.getLogger("shardfeed")
_last_logged = -math.inf  # by ``clock``


_thread = threading.local()
_counting = threading.Lock()
_retries = 0


def wait(pause: float) -> None:
    """Waits before another attempt."""
    count_retries(1)
    sleep(pause)


def count_retries(number: int) -> None:
    """Counts requests that were tried again, here or in a process that works for this one."""
    global _retries
    with _counting:
        _retries += number


def take_retries() -> int:
    """Number of requests that this process has tried again since the last call of this function."""
    global _retries
    with _counting:
        taken, _retries = _retries, 0
    return taken


def attempts() -> int:
    """How many attempts this thread's last call made."""
    return int(getattr(_thread, "attempts", 0))


def pause_after(attempt: int) -> float:
    """Seconds to wait after attempt 1, 2, ...; jitter spreads the attempts of many workers."""
    return min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.0)


def call_with_retries(action: Callable[[], T], is_transient: Callable[[Exception], bool]) -> T:
    """The result of ``action``, tried again after transient failures; raises the last failure."""
    began, attempt = clock(), 0
    while True:
        _thread.attempts = attempt = attempt + 1
        try:
            return action()
        except Exception as error:
            seconds = clock() - began
            if not is_transient(error) or attempt == ATTEMPTS or (attempt >= LEAST_ATTEMPTS and seconds > DEADLINE):
                raise
            if seconds > _LOGGED_AFTER:
                _log(error, attempt, seconds)
        wait(pause_after(attempt))


def _log(error: Exception, attempt: int, seconds: float) -> None:
    """One line per minute and process, however many threads wait."""
    global _last_logged
    if clock() - _last_logged >= _BETWEEN_LINES:
        _last_logged = clock()
        _LOG.warning(
            "A request failed %d time%s in %.0f s and is tried again, up to %d times or for %.0f s: %s",
            attempt, "s" * (attempt > 1), seconds, ATTEMPTS, DEADLINE, clip(str(error).partition("\n")[0]),
        )  # fmt: skip
