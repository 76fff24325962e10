"""How a failure's reason survives the graph.

Exceptions change class and text on their way back from an engine (RuntimeError on all but the in-process one). So the step
that meets a failure of the user's kind writes it to the output under the run's own name, then raises. The launcher, who made
that name, reads only that file and turns it into the exit code.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence

from shardfeed.errors import ShardfeedError
from shardfeed.format import naming
from shardfeed.transforms import stores
from shardfeed.transforms.run.state import Outcome, Run


class AlreadyBuiltError(ShardfeedError):
    """The dataset appeared, complete, while this run began; there is nothing left to do."""

    code = 0


@contextlib.contextmanager
def reported(run: Run, files: Sequence[str] = ()) -> Iterator[None]:
    """Writes the outcome of any ShardfeedError that leaves the block; other exceptions are bugs and pass as they are."""
    try:
        yield
    except ShardfeedError as error:
        if run.outcome is None:
            run.outcome = Outcome(error.code, str(error), tuple(files))
            with contextlib.suppress(ShardfeedError):  # an unwritable output: the exception itself still says why
                write_outcome(run, run.outcome)
        raise


def write_outcome(run: Run, outcome: Outcome) -> None:
    """Create-only: the first failure of a run is the one reported."""
    raw = {"code": outcome.code, "message": outcome.message, "files": list(outcome.files)}
    stores.open_output(run.output).create(naming.outcome_name(run.run_id), json.dumps(raw).encode())


def read_outcome(run: Run) -> Outcome | None:
    """The reason that a step of the run left in the output, if there is one."""
    store = stores.open_output(run.output)
    name = naming.outcome_name(run.run_id)
    if store.stat(name) is None:
        return None
    return parse_outcome(store.read(name))


def parse_outcome(data: bytes) -> Outcome:
    """The outcome in ``data``, as ``write_outcome`` writes it."""
    raw = json.loads(data)
    return Outcome(raw["code"], raw["message"], tuple(raw["files"]))


ENGINE_FAULT = (
    "Nothing was published. Rerun the same command; if it happens again, the engine loses or doubles elements: use another "
    "--runner."
)
