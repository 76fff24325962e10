"""How a failure's reason survives the graph.

Exceptions change class and text on their way back from an engine: they become RuntimeError on all
but the in-process one. So the step that meets a failure of the user's kind writes it to the
output under the run's own name, then raises. The launcher made that name. It reads only that
file and turns it into the exit code. No file is written if the dataset appeared meanwhile: the
sweep is over then, and the launcher finds the manifest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from shardfeed.errors import ShardfeedError
from shardfeed.format import naming
from shardfeed.transforms import stores
from shardfeed.transforms.run.state import Outcome, Run


class AlreadyBuiltError(ShardfeedError):
    """The complete dataset appeared while this run was at work: nothing is left to do."""

    code = 0


@contextlib.contextmanager
def reported(run: Run, files: Sequence[str] = ()) -> Iterator[None]:
    """Writes the outcome of any ShardfeedError that leaves the block.

    Other exceptions are bugs and pass as they are.
    """
    try:
        yield
    except ShardfeedError as error:
        if run.outcome is None:
            run.outcome = Outcome(error.code, str(error), tuple(files))
            if not isinstance(
                error, AlreadyBuiltError
            ):  # the launcher finds the manifest; nobody would sweep this file
                _leave(run, run.outcome)
        raise


def _leave(run: Run, outcome: Outcome) -> None:
    with contextlib.suppress(ShardfeedError):  # an unwritable output: the exception itself still says why
        # Create-only: the first failure of a run is the one reported.
        stores.open_output(run.output).create(naming.outcome_name(run.run_id), outcome.to_bytes())


def read_outcome(run: Run) -> Outcome | None:
    """The reason that a step of the run left in the output; None if there is none to be read."""
    with contextlib.suppress(ShardfeedError):
        return Outcome.from_bytes(stores.open_output(run.output).read(naming.outcome_name(run.run_id)))
    return None


ENGINE_FAULT = (
    "Nothing was published. Rerun the same command; if it happens again, the engine loses or doubles elements: use another "
    "--runner."
)
