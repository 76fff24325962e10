"""One run of a build: its name, how far it is, whether it shall stop, and why it failed.

A ``Run`` is passed to whatever works for it. Pickled, it travels as its name and output. In the
process that began the run every copy is the same object, so a step of an in-process engine
reaches the run's progress and stop flag. In another process the copy is a run of its own, which
nobody watches or stops; no result depends on either. (Beam's metrics cannot serve here: the
in-process engine shows none before the end.)
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from shardfeed.errors import IncompleteError
from shardfeed.transforms.elements import Element, PartResult

LOOK_SECONDS = 0.2  # between two checks whether a run shall stop
STEPS = ("starting", "listing", "encoding", "publishing", "sweeping")


@dataclass(frozen=True)
class Outcome(Element):
    """Why a run failed: exit code, message, and files that say more."""

    code: int
    message: str
    files: tuple[str, ...] = ()


class Run:
    """How far one run is, and how it ended. Its name ``run_id`` is in no fingerprint.

    ``total``, ``done``, ``rejected``: images. ``kept``: images that an earlier run had
    finished. ``outcome``: the first failure that a user can act on, before an engine
    rewrote it. ``counted``: our counters by name, from the workers of an engine elsewhere, which
    the launcher asks after the job's end. ``stop``: is set when all work for the run shall end.
    ``interrupted``: because the user asked for it.
    """

    def __init__(self, run_id: str, output: str) -> None:
        self.run_id, self.output = run_id, output
        self.step = STEPS[0]
        self.total = self.done = self.kept = self.rejected = self.out_bytes = 0
        self.outcome: Outcome | None = None
        self.counted = Counter[str]()
        self.stop, self.interrupted = threading.Event(), False
        self._parts: set[tuple[str, int]] = set()
        self._closing = contextlib.ExitStack()
        self._lock = threading.Lock()
        _RUNS[run_id, output] = self

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return _run_of, (self.run_id, self.output)

    def add(self, result: PartResult, kept: int) -> None:
        """Counts a finished part, once, from any thread; ``kept``: of its images, as above."""
        with self._lock:
            if (result.split, result.part) in self._parts:
                return
            self._parts.add((result.split, result.part))
            self.kept += kept
            self.done += result.images
            self.rejected += sum(result.rejected.values())
            self.out_bytes += result.bytes

    def at_end(self, close: Callable[[], object]) -> None:
        """Has ``end`` call ``close``."""
        self._closing.callback(close)

    def end(self) -> None:
        """Ends all that still works for the run in this process."""
        self.stop.set()
        self._closing.close()

    def interrupt(self) -> None:
        """Stops the run for the user."""
        self.interrupted = True
        self.stop.set()

    def enter(self, step: str) -> None:
        """Notes that the run is at ``step``. It never goes back: steps may run side by side."""
        if STEPS.index(step) > STEPS.index(self.step):
            self.step = step

    def check(self) -> None:
        """Raises IncompleteError if the run shall stop. Cheap: called between units of work."""
        if self.stop.is_set():
            raise IncompleteError("stopped before the dataset was complete; rerun the same command to carry on.")


_RUNS: weakref.WeakValueDictionary[tuple[str, str], Run] = weakref.WeakValueDictionary()
_RESTORING = threading.Lock()


def _run_of(run_id: str, output: str) -> Run:
    with _RESTORING:  # two steps that are unpickled side by side share one run
        return _RUNS.get((run_id, output)) or Run(run_id, output)
