"""A build whose process a test sends signals, while another thread waits for its end."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apache_beam.runners.portability.portable_runner import PipelineResult

from tests.kit import builds
from tests.kit.builder import Ended
from tests.kit.hooks import put

SECONDS = 60.0


@dataclass(frozen=True)
class Launcher:
    """The process, and what becomes of it."""

    pid: int
    future: Future[Ended]

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self) -> Ended:
        """Waits for its end."""
        return self.future.result(SECONDS)


def tell_pid(pipe: Path) -> None:
    """A hook: writes which process this is."""
    pipe.write_text(str(os.getpid()))


@contextlib.contextmanager
def launched(
    args: tuple[str, ...],
    folder: Path,
    *,
    hooks: tuple[Callable[[], None], ...] = (),
    until: Callable[[Path], None] = tell_pid,
    env: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Launcher]:
    """``shardfeed args…``, killed at the end of the block if it still runs; ``folder`` is for temporary files.

    The block begins with the command, or when ``until``, the last hook, tells who it is (``tell_when_waiting``).
    """
    pipe = folder / "launcher"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR)  # waits for nobody
    with ThreadPoolExecutor(1) as pool:
        told: list[Callable[[], None]] = [*hooks, partial(until, pipe)]
        future = pool.submit(builds.run, *args, hooks=told, env={"TMPDIR": str(folder), **env})
        assert select.select([reading], [], [], SECONDS)[0], future
        pid = int(os.read(reading, 100))
        try:
            yield Launcher(pid, future)
        finally:
            if not future.done():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.close(reading)


def tell_when_waiting(pipe: Path) -> None:
    """A hook: writes which process this is, as soon as it waits for the end of an engine's job."""
    wait = PipelineResult.wait_until_finish

    def waiting(self: Any, *args: Any) -> Any:
        tell_pid(pipe)
        return wait(self, *args)

    put(PipelineResult, "wait_until_finish", waiting)


def use_terminal(name: str) -> None:
    """The terminal of this name becomes standard input and error."""
    terminal = os.open(name, os.O_RDWR | os.O_NOCTTY)
    os.dup2(terminal, 0)
    os.dup2(terminal, 2)


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, Callable[[], None]]]:
    """A user's end of a terminal, and a hook by which the other end becomes a launcher's."""
    ours, theirs = pty.openpty()
    try:
        yield ours, partial(use_terminal, os.ttyname(theirs))
    finally:
        os.close(ours)
        os.close(theirs)


def read_until(end: int, text: str) -> str:
    """What the terminal shows, up to and with ``text``."""
    shown = ""
    while text not in shown:
        assert select.select([end], [], [], SECONDS)[0], shown
        shown += os.read(end, 4096).decode()
    return shown
