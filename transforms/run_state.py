"""What a run in this process shares with the program that started it: how far it is, and whether it shall stop.

Only meaningful in process: in another process the numbers stay unread and ``stop`` stays unset, and nothing depends on
either. Beam's own metrics cannot serve here, since the in-process engine shows none before the end.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from shardfeed.errors import IncompleteError, ShardfeedError
from transforms.elements import PartResult

STEPS = ("starting", "listing", "encoding", "publishing", "sweeping")


class EarlyParts(Protocol):
    """Parts that this process finishes before the graph runs; see ``pipeline.head_start``."""

    def settle(self, fingerprint: str) -> None:
        """The graph is about to claim the output for ``fingerprint``."""

    def take_over(self) -> Mapping[tuple[str, int], PartResult]:
        """The graph is about to encode; the finished parts by (split, part)."""


@dataclass
class RunState:
    """Written by the steps, read by the progress line. ``kept``: images of parts that an earlier run had finished.

    ``error``: the first failure of the user's kind, before an engine rewrote it.
    """

    step: str = "starting"
    total: int = 0
    done: int = 0
    kept: int = 0
    rejected: int = 0
    out_bytes: int = 0
    error: ShardfeedError | None = None
    head_start: EarlyParts | None = None
    stop: threading.Event = field(default_factory=threading.Event)

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
