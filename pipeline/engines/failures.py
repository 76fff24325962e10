"""What an engine other than Dataflow says when a job failed, and what to do about it.

The reason that a step of the graph wrote comes first (``shardfeed.transforms.run.outcome``). This
is for a job whose steps wrote none, or could not: a worker may not write the output, or its disk is
full.
"""

from __future__ import annotations

from shardfeed.errors import IncompleteError, ShardfeedError, UsageError, clip
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.engines.failure_text import (
    NO_DEPENDENCY,
    NO_PACKAGE,
    first_remedy,
    names_error,
    step_error,
    step_traceback,
    telling_line,
)
from shardfeed.pipeline.engines.quiet import Said

_NO_RERUN_MENDS = (
    (NO_PACKAGE, "the workers have no shardfeed"),
    (NO_DEPENDENCY, "the workers lack what shardfeed depends on"),
)


def explain_engine_failure(error: Exception, engine: Engine, said: Said) -> ShardfeedError:
    """The error to raise for a job that failed by ``error`` and left no outcome.

    If the engine's account names no error, what Beam ``said`` is added.
    """
    text = str(error) or type(error).__name__
    name, message = step_error(text)
    if ours := _class_of(name):  # it could not write its outcome, for the same reason
        return ours(message)
    if wrong := first_remedy(text, _NO_RERUN_MENDS):
        return UsageError(
            f"{wrong} ({telling_line(text)}). {_install(engine)} docs/how-to/engines.md has what workers need."
        )
    more = ""
    if traceback := step_traceback(text):
        more = f" What went wrong in the step:\n{traceback}"
    elif not names_error(text) and (texts := said.beside(error)):
        more = "\nApache Beam said meanwhile:\n" + "\n".join(texts)
    return IncompleteError(
        f"the engine gave up: {telling_line(text)}\nRerun the same command to carry on; what each engine needs is in "
        f"docs/how-to/engines.md.{more}"
    )


def _class_of(name: str) -> type[ShardfeedError] | None:
    """The error class of this full name, if it is one of the reader's or the storage's."""
    classes: list[type[ShardfeedError]] = [ShardfeedError]
    for each in classes:
        classes += each.__subclasses__()
    known = {f"{each.__module__}.{each.__name__}": each for each in classes}
    return known.get(name) if name.startswith(("shardfeed.errors.", "shardfeed.storage.")) else None


def _install(engine: Engine) -> str:
    if engine.arg("environment_type") != "EXTERNAL":
        return (
            "Install the package for the workers' Python (pip install . in this repository), or give an image that holds it "
            "(--environment_config)."
        )
    return (
        f"The pool at {clip(engine.arg('environment_config'))} starts the first python of its PATH: install the package "
        "for that one (pip install . in this repository), or start the pool where it is."
    )
