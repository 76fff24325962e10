"""What a run in this process shares with the program that started it: how far it is, and whether it shall stop.

Only meaningful in process: in another process the numbers stay unread and ``stop`` stays unset, and nothing depends on
either. Beam's own metrics cannot serve here, since the in-process engine shows none before the end.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from shardfeed.errors import IncompleteError, ShardfeedError
from transforms.elements import PartResult, Plan, RefBatch
from transforms.spent import Spent

STEPS = ("starting", "listing", "encoding", "publishing", "sweeping")


Made = Future[tuple[PartResult, Spent]]  # a part, and what it took


class HelperGoneError(Exception):
    """A helper did not make its part, for whatever reason; whoever makes the part in its place meets the same reason, or none."""


class Helpers(Protocol):
    """Processes that finish parts beside this one; see ``pipeline.helpers``."""

    @property
    def count(self) -> int:
        """Processes besides this one."""

    @property
    def threads(self) -> int:
        """Threads that encode in them."""

    def listing(self) -> Mapping[tuple[int, bytes], list[RefBatch]] | None:
        """What a helper has listed for the graph, by (number of the root, section); None: the graph has to list by itself."""

    def settle(self, fingerprint: str) -> None:
        """The graph is about to claim the output for ``fingerprint``."""

    def take_over(self) -> None:
        """The graph is about to encode; helpers begin no more parts by themselves."""

    def has_room(self) -> bool:
        """Whether ``submit`` would take a part that nobody has begun."""

    def submit(self, plan: Plan, split: str, part: int, packed: Sequence[bytes]) -> Made | None:
        """A part that a helper has begun by itself, or is now to make; None when all have enough."""


class WorkerHelpers(Protocol):
    """Helpers of whichever process encodes; see ``pipeline.worker_helpers``."""

    def join(self, plan: Plan) -> Helpers | None:
        """The helpers of this process for this plan; None: it has none for it."""

    def leave(self) -> None:
        """Undoes a ``join`` that gave helpers."""


@dataclass
class RunState:
    """Written by the steps, read by the progress line. ``kept``: images of parts that an earlier run had finished.

    ``error``: the first failure of the user's kind, before an engine rewrote it. ``counted``: our counters by name, of all
    workers wherever they are, which the launcher takes from the engine after the job's end.
    """

    step: str = "starting"
    total: int = 0
    done: int = 0
    kept: int = 0
    rejected: int = 0
    out_bytes: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    error: ShardfeedError | None = None
    helpers: Helpers | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    _counted: set[tuple[str, int]] = field(default_factory=set)
    _adding: threading.Lock = field(default_factory=threading.Lock)

    def add(self, result: PartResult, *, kept: bool) -> None:
        """A part is finished; ``kept``: by an earlier run. From any thread; a part that comes again does not count again."""
        rejected = sum(result.rejected.values())
        images = result.records + rejected
        with self._adding:
            if (result.split, result.part) in self._counted:
                return
            self._counted.add((result.split, result.part))
            self.kept += images * kept
            self.done += images
            self.rejected += rejected
            self.out_bytes += result.bytes

    def restart(self) -> None:
        """What was finished does not count: it was another input's."""
        with self._adding:
            self._counted.clear()
            self.kept = self.done = self.rejected = self.out_bytes = 0

    def enter(self, step: str) -> None:
        """The run has come to ``step``. Never back: early parts are encoded while the graph still lists."""
        if STEPS.index(step) > STEPS.index(self.step):
            self.step = step

    def reset(self) -> None:
        """As at the start of a program: a second build in one process must not inherit the first one's numbers or end."""
        vars(self).update(vars(RunState()))

    def check(self) -> None:
        """Raises IncompleteError when the run was asked to stop; cheap, called between units of work."""
        if self.stop.is_set():
            raise IncompleteError("stopped before the dataset was complete; rerun the same command to carry on.")


RUN = RunState()
