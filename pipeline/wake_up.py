"""Signals are taken at once even where the main thread waits for another.

Python runs a handler in the main thread, between two steps of it. A signal that another thread receives, or that comes in the
moment in which the main thread begins to wait for a lock, does not end that wait: the handler would run when the wait ends, or
at the next signal. So for each signal a thread of ours interrupts the main thread, a few times, by one that means nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Collection, Iterator

_NOTHING = signal.SIGURG  # what no program of ours is sent: it announces urgent data on a socket that asked for it
_PAUSES = (0.01, 0.1, 1.0)  # seconds; once is enough where the main thread has come to its wait by then


@contextlib.contextmanager
def wait_ended_by(signals: Collection[int]) -> Iterator[None]:
    """In the block ``signals`` end what the main thread waits for, long enough to run their handlers. Main thread only."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.signal(_NOTHING, lambda _number, _frame: None)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    ended = threading.Event()
    thread = threading.Thread(
        target=_interrupt, args=(reading, threading.get_ident(), signals, ended), name="wake-up", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        ended.set()
        os.write(writing, b"\0")  # ends the thread's read; closing would not, while a forked child holds the other copy
        thread.join()
        os.close(writing)
        os.close(reading)
        signal.signal(_NOTHING, before)


def _interrupt(reading: int, main: int, signals: Collection[int], ended: threading.Event) -> None:
    while not ended.is_set():
        received = os.read(reading, 64)  # the numbers of the signals that came
        if not set(received).isdisjoint(signals):
            for pause in _PAUSES:
                if ended.wait(pause):
                    return
                signal.pthread_kill(main, _NOTHING)
