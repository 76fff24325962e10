"""Ctrl-C and SIGTERM where no run listens for them: before a command has begun to run, and after it has said how it ended.

Before, the command line and Beam are imported, arguments are checked and the output is looked at, which may list the input for
minutes; a command that writes nothing is in that state to its end. Afterwards threads may still wait for a bucket's answer, and
the interpreter for them. Nothing is under way in either that had to be wound up, so the process leaves at once. An exception
could be swallowed by what is being imported or asked, and is not raised at all while the main thread waits in a library. No
module of ours is imported here, for the import of any may be what is interrupted.
"""

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_INCOMPLETE = 4  # the code of IncompleteError
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Leaving:
    """What a signal does: says ``message`` and ends the process with ``code``."""

    def __init__(self) -> None:
        self.message, self.code = b"", _INCOMPLETE
        self._lock = threading.RLock()  # of the handler and the thread, one leaves; a second signal may come meanwhile

    def leave(self) -> None:
        with self._lock:
            message, self.message = self.message, b""
            with contextlib.suppress(OSError):
                os.write(2, message)
            os._exit(self.code)

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        self.leave()

    def listen(self, reading: int) -> None:
        """In a thread: Python runs a handler when the main thread comes to its next step, which may be never."""
        while True:
            if not set(os.read(reading, 64)).isdisjoint(_SIGNALS):  # the numbers of the signals that came
                self.leave()


_LEAVING = _Leaving()


def leave_at_once(command: str) -> None:
    """From now on either signal ends this process with a line and exit 4, except while ``StopSignals`` takes them.

    A signal that this process was started to ignore stays ignored. Helpers end with the process by themselves.
    """
    _LEAVING.message = f"shardfeed: stopped before {command} was complete; rerun the same command.\n".encode()
    if threading.current_thread() is not threading.main_thread():
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _handle(_LEAVING.handle)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_hear_nothing)  # a signal to a child is not one to its parent
    threading.Thread(target=_LEAVING.listen, args=(reading,), name="leaving", daemon=True).start()
    # Runs after what others register: from there on the interpreter calls no handler, and a signal would kill the process.
    atexit.register(_handle, signal.SIG_IGN)


def leave_with(code: int) -> None:
    """From now on either signal ends this process with the exit code that its command has, and no word more."""
    _LEAVING.message, _LEAVING.code = b"", code


def _handle(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _hear_nothing() -> None:
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            if signal.getsignal(number) == _LEAVING.handle:
                signal.signal(number, signal.SIG_DFL)
