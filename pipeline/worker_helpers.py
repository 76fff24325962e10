"""Helpers of an engine's worker: processes that encode parts beside it, one a further core of its machine.

One interpreter does not use a machine: two threads of it use 1.65 cores, and more gain less each. So where an engine starts one
worker a machine, that worker has helpers as a build in process has (``pipeline.helpers``), and hands them parts. Where it starts
several, the first has them; each further one would take cores that are at work, and 90 MB for each of them.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext

from pipeline.config import BuildConfig
from pipeline.helpers import Helpers
from transforms.elements import Plan

NAME = "shardfeed helpers"  # of the one worker of a user on a machine that has some


class WorkerHelpers:
    """Travels with the graph. All copies of a step in a worker share the helpers of one build.

    A worker that is given another build meanwhile makes that one's parts itself.
    """

    def __init__(self, config: BuildConfig) -> None:
        self._config = config

    def join(self, plan: Plan) -> Helpers | None:
        """The helpers, started for the first who asks; None where another build, or worker of this machine, has them."""
        return _SHARED.join(self._config, plan.fingerprint)

    def leave(self) -> None:
        """Undoes a ``join`` that gave helpers; the last one ends them."""
        _SHARED.leave()


class _Shared:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._build: tuple[BuildConfig, str] | None = None
        self._helpers: Helpers | None = None
        self._running = ExitStack()

    def join(self, config: BuildConfig, fingerprint: str) -> Helpers | None:
        with self._lock:
            if self._users == 0:
                if not self._start(config):
                    return None
                self._build = config, fingerprint
            elif self._build != (config, fingerprint):
                return None
            self._users += 1
            return self._helpers

    def _start(self, config: BuildConfig) -> bool:
        with ExitStack() as started:
            machine = _take_machine()
            if machine is None:
                return False
            started.enter_context(machine)
            self._helpers = started.enter_context(Helpers(config, in_worker=True))
            if not self._helpers.count:  # one core, --threads 1, or no interpreter: the next may have the machine
                return False
            self._helpers.begin()
            self._running = started.pop_all()
            return True

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._running.close()
                self._helpers = None


_SHARED = _Shared()


def helpers_of_workers(config: BuildConfig) -> WorkerHelpers | None:
    """None where workers have none: this process encodes and has its own, or there are as many workers as cores by plan."""
    return None if config.engine.encodes_here or config.engine.is_dataflow else WorkerHelpers(config)


def _take_machine() -> AbstractContextManager[object] | None:
    """Entered while this process is the user's one worker of this machine that has helpers; None where another is.

    A socket with a name that is no file, which Linux takes back however the process ends. Elsewhere all have helpers.
    """
    if sys.platform != "linux":
        return nullcontext()
    taken = socket.socket(socket.AF_UNIX)
    try:
        taken.bind(f"\0{NAME} {os.getuid()}")
    except OSError:
        taken.close()
        return None
    return taken
