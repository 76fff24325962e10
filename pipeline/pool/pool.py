"""Processes that make parts beside this one: one per further core, each with a lock of its own.

A process gets whole parts and answers with their results, nothing else. It never lists, plans or
claims. So killing it at any time costs only the parts that it has in hand; this process makes them
again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import site
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from multiprocessing.connection import Connection, Pipe
from typing import Any

from shardfeed.errors import clip
from shardfeed.transforms.elements import PartResult, Plan
from shardfeed.transforms.encode.part_encoder import LOOK_SECONDS, Made, PartEncoder
from shardfeed.transforms.encode.slices import EncoderSettings
from shardfeed.transforms.run.state import Run

# Isolated (-I): no file in the current folder, often the input, may be imported in place of a
# module. -I also skips the user's own site-packages, where this package may be installed. The
# process reads the .pth files there if this process has read them.
_BOOT = (
    "import site, sys; from multiprocessing.connection import Connection; pipe = Connection(int(sys.argv[1])); "
    "path, user_site = pipe.recv(); user_site and site.addsitedir(user_site); sys.path[:] = path; "
    "from shardfeed.pipeline.pool.worker import serve; serve(pipe)"
)
_LAST_WORDS = 20_000  # bytes of a process's standard error that are searched for a message
_LOG = logging.getLogger("shardfeed")

Part = tuple[str, int, Sequence[bytes]]
"""Split, number of the part, and batches of its packed references."""


class PartLostError(Exception):
    """A process ended, or failed, before it had made its part."""


def make_parts(parts: Iterator[Part], here: PartEncoder, pool: Pool, run: Run) -> Iterator[tuple[PartResult, bool]]:
    """Makes ``parts`` in this process and in ``pool``; yields each result when it is finished.

    Whichever process has the fewest parts in hand gets the next one.
    """
    in_flight: dict[Made, tuple[Part, PartEncoder | _Process]] = {}
    lost: list[Part] = []

    def load(maker: PartEncoder | _Process) -> int:
        return sum(by is maker for _, by in in_flight.values())

    while True:
        makers: list[PartEncoder | _Process] = [*pool.processes(), here]
        while (free := [maker for maker in makers if load(maker) <= maker.ahead]) and (
            part := lost.pop() if lost else next(parts, None)
        ) is not None:
            maker = min(free, key=load)
            in_flight[maker.begin(*part)] = part, maker
        if not in_flight:
            return
        run.check()
        done, _ = wait(in_flight, LOOK_SECONDS, FIRST_COMPLETED)
        for made in done:
            part, _ = in_flight.pop(made)
            if isinstance(made.exception(), PartLostError):
                lost.append(part)
            else:
                yield made.result()


class Pool:
    """Processes that make parts of a plan. Close it to end them."""

    def __init__(self) -> None:
        self._processes: list[_Process] = []
        self._closed = threading.Event()
        self._told = False

    def grow(self, count: int) -> None:
        """Starts processes until there are ``count``. They import while this one still lists."""
        try:
            # A program that embeds Python may have no interpreter to start.
            while sys.executable and len(self._processes) < count:
                self._processes.append(_Process(self._tell_loss))
        except OSError as error:  # the system allows no further process, or the interpreter is gone
            self._tell_once(f"no further process could be started to encode beside this one ({clip(error, 300)})")

    def open(self, plan: Plan, settings: EncoderSettings) -> None:
        """Gives the processes the plan and the settings; each opens an encoder of its own."""
        for process in self._processes:
            process.open(plan, settings)

    def processes(self) -> list[_Process]:
        """The processes that have not ended."""
        return [process for process in self._processes if not process.ended]

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        self._closed.set()
        for process in self._processes:
            process.close()

    def _tell_loss(self, code: int, last_words: str) -> None:
        if not self._closed.is_set():
            words = f" ({clip(last_words, 300)})" if last_words else ""
            self._tell_once(f"a process that encodes beside this one ended with code {code}{words}")

    def _tell_once(self, what: str) -> None:
        """Logs one line per pool: processes that cannot start all fail alike."""
        if not self._told:
            self._told = True
            _LOG.warning("%s. The build goes on without it.", what)


class _Process:
    def __init__(self, tell_loss: Callable[[int, str], None]) -> None:
        self.ahead = 1  # part that it accepts beside the one that it makes
        self.ended = False
        self._made: dict[tuple[str, int], Made] = {}
        self._lock = threading.Lock()
        self._tell_loss = tell_loss
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._pipe, theirs = Pipe()
        with theirs:
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-X", f"utf8={sys.flags.utf8_mode}", "-X", "faulthandler", "-c", _BOOT, str(fd)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[fd],
                # Nothing here uses NumPy's BLAS; its threads would spin for 50 ms at the start.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        threading.Thread(target=self._collect, args=(self._pipe,), name="pool", daemon=True).start()
        self._send((list(sys.path), site.getusersitepackages() if site.ENABLE_USER_SITE else ""))
        self._send(os.getpid())

    def open(self, plan: Plan, settings: EncoderSettings) -> None:
        self._send((plan, settings))

    def begin(self, split: str, part: int, packed: Sequence[bytes]) -> Made:
        """Gives the process a part. The future raises PartLostError if the process ends."""
        made: Made = Future()
        with self._lock:
            if self.ended:
                made.set_exception(PartLostError())
                return made
            self._made[split, part] = made
        self._send((split, part, tuple(packed)))
        return made

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError, ValueError):  # the process has ended; ``_collect`` sees that
            self._pipe.send(message)

    def _collect(self, pipe: Connection) -> None:
        """Passes results on until the process ends; runs in a thread."""
        with contextlib.suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                key, result = pipe.recv()
                with self._lock:
                    made = self._made.pop(key)
                made.set_result(result) if result is not None else made.set_exception(PartLostError())
        with self._lock:
            self.ended, left, self._made = True, list(self._made.values()), {}
        with self._stderr:
            self._tell_loss(self._process.wait(), self._last_words())
        for made in left:
            made.set_exception(PartLostError())

    def _last_words(self) -> str:
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _LAST_WORDS))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        crashed = (line for line in lines if line.startswith("Fatal Python error"))  # stacks follow it
        return next(crashed, lines[-1] if lines else "")
