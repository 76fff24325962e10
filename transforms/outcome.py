"""How a failure's reason survives the graph.

Exceptions change class and text on their way back from an engine (RuntimeError on all but the in-process one), so the step
that meets a failure of the user's kind writes it to the output under the run's own name, then raises. The launcher, who made
that name, reads only that file and turns it into the exit code.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardfeed import naming, storage
from shardfeed.errors import ShardfeedError
from transforms.run_state import RUN


@dataclass(frozen=True, slots=True)
class Output:
    """Where a build writes, and the launcher's name for this run (part of no fingerprint)."""

    url: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Why a run failed: exit code, message, and files that say more."""

    code: int
    message: str
    files: tuple[str, ...] = ()


class AlreadyBuiltError(ShardfeedError):
    """The dataset appeared, complete, while this run began; there is nothing left to do."""

    code = 0


@contextlib.contextmanager
def reported(output: Output, files: Sequence[str] = ()) -> Iterator[None]:
    """Writes the outcome of any ShardfeedError that leaves the block; other exceptions are bugs and pass as they are."""
    try:
        yield
    except ShardfeedError as error:
        RUN.error = RUN.error or error
        with contextlib.suppress(ShardfeedError):  # an unwritable output: the exception itself still says why
            write_outcome(output, Outcome(error.code, str(error), tuple(files)))
        raise


def write_outcome(output: Output, outcome: Outcome) -> None:
    """Create-only: the first failure of a run is the one reported."""
    raw = {"code": outcome.code, "message": outcome.message, "files": list(outcome.files)}
    storage.open_store(output.url).create(naming.outcome_name(output.run_id), json.dumps(raw).encode())


def read_outcome(output: Output) -> Outcome | None:
    """What the run left, if it left anything."""
    store = storage.open_store(output.url)
    name = naming.outcome_name(output.run_id)
    if store.stat(name) is None:
        return None
    return parse_outcome(store.read(name))


def parse_outcome(data: bytes) -> Outcome:
    """The outcome in ``data``, as ``write_outcome`` writes it."""
    raw = json.loads(data)
    return Outcome(raw["code"], raw["message"], tuple(raw["files"]))
