"""Runs a graph on an engine and waits for its end; says what Ctrl-C does to a job elsewhere.

Such a job does not need this program: its workers publish the dataset themselves. So Ctrl-C ends
the waiting, and ends the job only if the user says so. On a terminal the user is asked, once. A
rerun of the same command joins a job that goes on, and carries on one that was cancelled.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, TextIO

import grpc  # type: ignore[import-untyped]
import requests
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineState

from shardfeed import signals
from shardfeed.errors import IncompleteError, UsageError, clip
from shardfeed.format import naming
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.engines import first_sign
from shardfeed.pipeline.engines.counters import note_counted
from shardfeed.pipeline.report.submitted import Submitted
from shardfeed.transforms.run.state import Run

_NO_LONGER = "no longer waiting; the job goes on unless it was cancelled. To wait for it again, rerun the same command."
_QUESTION = "\nThe job goes on without this program. Cancel it? [y/N] "


def run_and_wait(pipeline: Any, engine: Engine, run: Run, stream: TextIO | None) -> Submitted | None:
    """Runs a graph to its end. If nobody shall wait, only hands it over and returns the job.

    Warns on ``stream`` if no worker begins.

    Raises:
        UsageError: Beam could not make a job of it with the options given.
        IncompleteError: the engine cannot be reached, or was lost.
        Exception: whatever an engine makes of a failure in a step.
    """
    started_here = pipeline.runner if isinstance(pipeline.runner, AbstractContextManager) else contextlib.nullcontext()
    with _engine_trouble(engine, run), started_here:
        result = _submitted(pipeline, engine)
        if not engine.waits_for_end:
            return Submitted(run.output, result._job_id)
        asked = cancelled_or_left(result, engine, run.output) if engine.outlives_launcher else contextlib.nullcontext()
        with asked, first_sign.awaited(engine, run.output, stream):
            result.wait_until_finish()
            note_counted(result, run)
    return None


def _submitted(pipeline: Any, engine: Engine) -> Any:
    where = engine.arg("job_endpoint") or engine.runner
    may_be_taken = functools.partial(
        signals.leave,
        f"stopped while the job was handed over to {clip(where)}: it may have been taken, and then it goes on. Rerun the same "
        "command to join it.",
    )
    try:
        with signals.on_stop(may_be_taken) if engine.outlives_launcher else contextlib.nullcontext():
            return pipeline.run()
    except UsageError:
        raise
    except (ValueError, ImportError, OSError, RuntimeError) as error:  # an option, a package, a jar, Java, a port
        if not isinstance(pipeline.runner, PortableRunner):  # it has run the job then
            raise
        if isinstance(error, (requests.ConnectionError, requests.Timeout)):  # a cluster called over HTTP
            raise IncompleteError(
                f"no engine answers: {_first_line(error)}. Start it, then rerun the same command."
            ) from error
        raise UsageError(
            f"--runner {engine.runner} does not start with these options: {_first_line(error)}. "
            "docs/how-to/engines.md has what each engine needs."
        ) from error


def cancelled_or_left(result: Any, engine: Engine, output: str, job: str = "the job") -> AbstractContextManager[None]:
    """In the block a signal cancels ``result``'s job, or leaves it running, and ends this process.

    If the job has ended by then, the block goes on to its result. ``job`` names it in messages.
    """
    return signals.on_stop(functools.partial(_cancel_or_leave, result, engine, output, job), again=_NO_LONGER)


def _cancel_or_leave(result: Any, engine: Engine, output: str, job: str) -> None:
    if not _shall_cancel(engine):
        signals.leave(
            f"no longer waiting; {job} goes on. To wait for it again, rerun the same command: it joins, and nothing that is "
            "finished is done twice."
        )
    try:
        if PipelineState.is_terminal(result.state):
            return
        result.cancel()
    except Exception as error:  # whatever an engine's client raises
        signals.leave(
            f"{job} could not be cancelled and may go on: {_first_line(error)}. To wait for it again, rerun the same command."
        )
    signals.leave(
        f"{job} was cancelled. What is finished is kept under {output}/{naming.PARTS}; rerun the same command to carry on."
    )


def _shall_cancel(engine: Engine) -> bool:
    if engine.on_interrupt is not None:
        return engine.on_interrupt == "cancel"
    if not signals.is_ctrl_c() or not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        return False
    sys.stderr.write(_QUESTION)
    sys.stderr.flush()
    # Not sys.stdin: a thread that reads there holds its lock, and the interpreter's end waits for
    # it.
    answer = os.read(sys.stdin.fileno(), 1000)
    return answer.strip().lower() in (b"y", b"yes")


@contextlib.contextmanager
def _engine_trouble(engine: Engine, run: Run) -> Iterator[None]:
    """Says plainly that an engine cannot be reached or was lost."""
    try:
        yield
    except Exception as error:
        if _is_ctrl_c(error):
            raise KeyboardInterrupt from None
        endpoint = engine.arg("job_endpoint")
        if endpoint is not None and isinstance(error, grpc.FutureTimeoutError):
            seconds = engine.arg("job_server_timeout") or "300"
            raise IncompleteError(
                f"no engine answers at --job_endpoint {clip(endpoint)} (waited for {seconds} s, --job_server_timeout). "
                "Start it, then rerun the same command."
            ) from error
        if isinstance(error, grpc.RpcError):
            pool = engine.arg("environment_config")
            remedy = "Rerun" if pool is None else f"See that it runs, and the workers at {clip(pool)}, then rerun"
            lost = f"the engine was lost: {_first_line(error)}. {remedy} the same command to carry on."
            if not engine.outlives_launcher:
                signals.leave(lost)  # at once: each thread of a worker in this process would end with pages of its own
            raise IncompleteError(lost) from error
        raise
    finally:
        run.stop.set()  # before an engine's workers in this process are forgotten


def _is_ctrl_c(error: BaseException | None) -> bool:
    """Whether a host program's KeyboardInterrupt met a step: Beam makes a RuntimeError of it."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _first_line(error: Exception) -> str:
    """The first line of what an error says. gRPC's errors keep it in ``details``."""
    details = getattr(error, "details", None)
    text = str(details() if callable(details) else error) or type(error).__name__
    return clip(text.splitlines()[0].rstrip("."), 300)
