"""SIGINT and SIGTERM in the command line: one thread hears them and acts.

Python's own handler does nothing, so no exception of ours ever interrupts the main thread. The
thread reads the numbers of the signals from a pipe that Python's C code writes
(``signal.set_wakeup_fd``). It hears them even while the main thread waits inside a library; Python
would call a handler after the wait only.

What the first signal does depends on the phase of the command (``on_stop``). A second signal leaves
at once. Outside of all phases the first signal leaves: with a line and exit code 4, or with the
command's own exit code if that is decided (``decided``).

Only the command line calls ``install``. A program that calls the library keeps its own handlers and
gets KeyboardInterrupt. This file imports almost nothing, because the import of anything else may be
what the user interrupts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NamedTuple, NoReturn

from shardfeed.processes import descendants

INCOMPLETE = 4  # IncompleteError.code
STOPPED = "stopped; rerun the same command to carry on."

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Phase(NamedTuple):
    action: Callable[[], object]  # for the first signal
    again: str  # the message that a second signal leaves with


class _Listener:
    """What signals do at present. One thread calls ``listen``; the main thread sets the phase."""

    def __init__(self, line: str) -> None:
        self.first: int | None = None  # the first signal that came
        self.line, self.code = line, INCOMPLETE  # how a signal ends the command outside of any phase
        self._phase: _Phase | None = None
        self._acting: threading.Thread | None = None
        self._changing, self._leaving = threading.Lock(), threading.Lock()
        self._not_ours = _earlier_processes()

    def listen(self, reading: int) -> NoReturn:
        while True:
            for number in os.read(reading, 64):
                if number in _SIGNALS:
                    self._hear(number)

    def _hear(self, number: int) -> None:
        with self._changing:
            again, phase = self.first is not None, self._phase
            if not again:
                self.first = number
                if phase is not None:  # in a thread of its own: a second signal must be heard while the user is asked
                    self._acting = threading.Thread(target=phase.action, name="stopping", daemon=True)
                    self._acting.start()
                    return
        if again and phase is not None:
            self.leave(f"\nshardfeed: {phase.again}\n", INCOMPLETE)
        self.leave(self.line, self.code)

    @contextlib.contextmanager
    def phase(self, phase: _Phase) -> Iterator[None]:
        with self._changing:
            before, self._phase = self._phase, phase
        try:
            yield
        finally:
            with self._changing:
                self._phase = before
            if self._acting is not None:  # it either leaves, or lets this thread go on
                self._acting.join()

    def leave(self, text: str, code: int) -> NoReturn:
        self._leaving.acquire()  # for good: only the first thread that leaves says why
        keep = {pid for each in self._not_ours for pid in (each, *descendants(each))}
        ending = [pid for pid in descendants(os.getpid()) if pid not in keep]
        _write(text)
        for pid in ending:  # last: threads that lose them would say so
            with contextlib.suppress(OSError):  # it has ended
                os.kill(pid, signal.SIGKILL)
        os._exit(code)


_listener: _Listener | None = None  # None in a program that is not the command line


def install(command: str) -> None:
    """Makes either signal end this process outside of phases: a line on ``command``, exit code 4.

    A signal that this process was started to ignore stays ignored. Call it once.
    """
    global _listener
    if threading.current_thread() is not threading.main_thread():
        return  # Python takes signals in the main thread only
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _listener = _Listener(f"shardfeed: stopped before {command} was complete; rerun the same command.\n")
    _handle(_do_nothing)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_forget)
    threading.Thread(target=_listener.listen, args=(reading,), name="signals", daemon=True).start()
    # Runs after the functions that others register. From then on the interpreter calls no handler,
    # and a signal would kill the process.
    atexit.register(_handle, signal.SIG_IGN)


def decided(code: int) -> None:
    """Makes either signal end this process with ``code``, the command's own, and without a line."""
    if _listener is not None:
        _listener.line, _listener.code = "", code


@contextlib.contextmanager
def on_stop(action: Callable[[], object], *, again: str = STOPPED) -> Iterator[None]:
    """In the block the first signal calls ``action`` in a thread; a second leaves with ``again``.

    The block does not end while ``action`` runs. If nothing is installed, this does nothing.
    """
    with contextlib.nullcontext() if _listener is None else _listener.phase(_Phase(action, again)):
        yield


def after_images_in_hand(stop: Callable[[], object]) -> Callable[[], None]:
    """An action for ``on_stop`` of a local build, which ``stop`` ends after the images in hand."""

    def action() -> None:
        stop()
        _write("\nstopping after the images in hand (again to stop at once) ...\n")

    return action


def is_installed() -> bool:
    """Whether this process runs our command line, so that it ends with the command."""
    return _listener is not None


def is_ctrl_c() -> bool:
    """Whether the first signal was SIGINT, which a user types. A program sends SIGTERM."""
    return _listener is not None and _listener.first == signal.SIGINT


def leave(message: str) -> NoReturn:
    """Ends this process with ``message`` and exit code 4, and all processes that it has started.

    Raises:
        IncompleteError: nothing is installed: a host program's process is not ours to end.
    """
    if _listener is None:
        from shardfeed.errors import IncompleteError

        raise IncompleteError(message)
    _listener.leave(f"\nshardfeed: {message}\n", INCOMPLETE)


def _earlier_processes() -> frozenset[int]:
    """Earlier child processes: a shell that became this program may have started some."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):  # none, as nearly always; or not Linux
        return frozenset()
    return frozenset(descendants(os.getpid()))


def _handle(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _forget() -> None:
    """In a forked child: a signal to it is its own, and it has no thread that listens."""
    global _listener
    _listener = None
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            if signal.getsignal(number) == _do_nothing:
                signal.signal(number, signal.SIG_DFL)


def _write(text: str) -> None:
    encoding = getattr(sys.__stderr__, "encoding", None) or "utf-8"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(encoding, "backslashreplace"))
