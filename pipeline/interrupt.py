"""Ctrl-C and dying workers: how a run ends early without lying about it.

In process, a signal only raises a flag; the steps see it between images and the run ends by an exception of ours (inside a
DoFn a KeyboardInterrupt would leave the engine as a RuntimeError). With workers in other processes the flag cannot reach
them, so they are ended, and this process with them: the job is built to be killed anywhere. A job that does not need this
process goes on without it, unless it is cancelled (``pipeline.waiting``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Container
from types import FrameType, TracebackType
from typing import NoReturn

from pipeline.wake_up import wait_ended_by
from shardfeed.errors import IncompleteError
from transforms.run_state import Run

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEATH_SECONDS = 5.0  # for what was killed to be gone; at the lowest priority on a busy machine it takes some 0.1 s
_LOOK_SECONDS = 0.005  # between two looks whether it is
_COMMANDS: set[bytes] = set()  # what builds of this process start, by the end of each command line as /proc shows it
_LEAVING = threading.RLock()  # a second signal may come while the first one's handler holds it


class InterruptedWaitError(KeyboardInterrupt):
    """A signal (``number``) came while a job runs that does not need this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StopSignals:
    """Takes SIGINT and SIGTERM for the length of the block; ``received`` says whether one stopped the build.

    ``detached``: the build is a job that does not need this process. The first signal is then raised from wherever the main
    thread is, since what follows (a question, a request to the engine) must not happen inside a handler.
    """

    def __init__(self, run: Run, *, in_process: bool, detached: bool = False) -> None:
        self._run, self.received = run, False
        self._in_process, self._detached, self._raised = in_process, detached, False
        self._before: dict[int, object] = {}
        self._waits = contextlib.ExitStack()

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._waits.enter_context(wait_ended_by(_SIGNALS))
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._waits.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._detached and not self._raised:
            self._raised = True
            raise InterruptedWaitError(number)
        if self._detached:
            leave(
                "no longer waiting; the job goes on unless it was cancelled. To wait for it again, rerun the same command."
            )
        if self.received or not self._in_process:
            leave("stopped; rerun the same command to carry on.")
        self.received = True
        self._run.stop.set()
        with contextlib.suppress(OSError):
            os.write(2, b"\nstopping after the images in hand (again to stop at once) ...\n")


def children() -> frozenset[int]:
    """The processes that this one has started, and those that they have."""
    return frozenset(descendants(os.getpid()))


def end_with_builds(*command: object) -> None:
    """From now on a process below this one whose command line ends in these words, which nobody else's does, ends with the build.

    By its name alone none is ended: the program that calls us has processes of its own.
    """
    _COMMANDS.add(b"".join(os.fsencode(str(word)) + b"\0" for word in command))


def end_children(*, but: Container[int] = ()) -> None:
    """Ends the engine and workers that a build started and are still there, ``but`` those; never a program's own children.

    They have ended when this returns, for Beam waits a second at the interpreter's end for an engine that has not. Only looked
    at: whoever started a process asks for its exit code itself. Not every Python has ``os.pidfd_open``.
    """
    ending, deadline = _kill_children(but), time.monotonic() + _DEATH_SECONDS
    while time.monotonic() < deadline and not all(map(_has_ended, ending)):
        time.sleep(_LOOK_SECONDS)


def _has_ended(pid: int) -> bool:
    try:
        fields = _state_and_more(pid)
    except OSError:
        return True
    # Its first thread is a zombie until the others have ended, and then until its parent has asked for the exit code.
    return fields[0] in (b"Z", b"X") and int(fields[17]) <= 1


def _kill_children(but: Container[int] = ()) -> list[int]:
    killed = [pid for pid in children() if pid not in but and _is_of_a_build(pid)]
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return killed


def _is_of_a_build(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
    except OSError:  # it has ended
        return False
    return command.endswith(tuple(_COMMANDS))


def leave(message: str) -> NoReturn:
    """Ends this process with exit 4, and those that it started, whatever they are doing."""
    with _LEAVING:  # what is ended here is what another thread would give for the reason
        sys.stderr.write(f"\nshardfeed: {message}\n")
        sys.stderr.flush()
        _kill_children()  # not waited for: threads that lose them would say so
        os._exit(IncompleteError.code)


def descendants(pid: int) -> list[int]:
    """Processes below ``pid``, the youngest generation first. Linux only; elsewhere there is nothing to see.

    By what each process says of its parent. The kernel also lists children, but by the thread that started them: where a thread
    ends meanwhile, its list cannot be read any more, and its children are in one that was read before.
    """
    below: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") != str(os.getpid()):  # of other processes' numbers, a container's host's
            return []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it has ended, or is not shown to us
                below.setdefault(int(_state_and_more(int(name))[1]), []).append(int(name))
    found = below.pop(pid, [])
    for child in found:
        found += below.pop(child, [])
    return found[::-1]


def _state_and_more(pid: int) -> list[bytes]:
    """What ``/proc/PID/stat`` has behind the command's name, which may hold anything: state, parent, and on.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
