"""Waiting for the job's end, in this process or on an engine elsewhere, and what Ctrl-C means for a job elsewhere.

Such a job does not need this program: its workers publish the dataset themselves. So Ctrl-C ends the waiting, and the job only
where the user says so; on a terminal the user is asked, once. A rerun of the same command joins a job that goes on and carries on
one that was cancelled: it is the way back in both cases.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from pipeline.config import BuildConfig
from pipeline.counted import note_counted
from pipeline.interrupt import InterruptedWaitError, leave
from pipeline.silent_workers import SilentWorkers
from pipeline.submitted import Submitted
from shardfeed import naming
from shardfeed.errors import IncompleteError, UsageError, clip
from transforms.run_state import Run

_READER = "wait_until_finish_read"  # the thread of Beam's that reads the engine's messages
_LAST_WORDS_SECONDS = 5.0  # that it is waited for; it ends where the wait does
_QUESTION = "\nThe job goes on without this program. Cancel it? [y/N] "


class CancelledError(IncompleteError):
    """The job was cancelled because the user wished it."""


def run_and_wait(pipeline: Any, config: BuildConfig, run: Run, stream: TextIO | None = None) -> Submitted | None:
    """Runs a constructed graph to its end, where waiting was not forbidden: else gives what was submitted.

    Says on ``stream`` where no worker begins.

    Raises:
        UsageError: Beam could not make a job of it with the options given.
        IncompleteError: the engine cannot be reached, or was lost, or the job was cancelled.
        Exception: whatever an engine makes of a failure in a step.
    """
    with _engine_trouble(config):
        workers = SilentWorkers(config, stream)
        result = _submitted(pipeline, config)
        if not config.engine.waits_for_end:
            return Submitted(config.output, result._job_id)
        with cancelled_or_left(result, config), workers.told(result):
            result.wait_until_finish()
            note_counted(result, run)
    return None


def _submitted(pipeline: Any, config: BuildConfig) -> Any:
    try:
        return pipeline.run()
    except InterruptedWaitError:
        where = config.engine.arg("job_endpoint") or config.engine.runner
        raise IncompleteError(
            f"stopped while the job was handed over to {clip(where)}: it may have been taken, and then it goes on. Rerun the "
            "same command to join it."
        ) from None
    except (ValueError, ImportError, OSError, RuntimeError) as error:  # an option, a package, a jar, Java, a port
        from apache_beam.runners.portability.portable_runner import PortableRunner

        if not isinstance(pipeline.runner, PortableRunner):  # it has run the job then
            raise
        if _is_no_answer(error):
            raise IncompleteError(
                f"no engine answers: {_first_line(error)}. Start it, then rerun the same command."
            ) from error
        raise UsageError(
            f"--runner {config.engine.runner} does not start with these options: {_first_line(error)}. docs/engines.md has "
            "what each engine needs."
        ) from error


@contextlib.contextmanager
def cancelled_or_left(
    result: Any, config: BuildConfig, job: str = "the job", wait_again: Callable[[], None] | None = None
) -> Iterator[None]:
    """While ``result``'s job is waited for in the block, Ctrl-C and SIGTERM cancel it, or leave it and end this process.

    ``job`` is what messages call it. A job that has ended by the time it is to be cancelled is given to ``wait_again``.

    Raises:
        CancelledError: the job was cancelled.
        IncompleteError: it could not be.
    """
    try:
        yield
    except InterruptedWaitError as interrupt:
        if not _shall_cancel(config, interrupt.number):
            leave(
                f"no longer waiting; {job} goes on. To wait for it again, rerun the same command: it joins, and nothing that is "
                "finished is done twice."
            )
        try:
            over = wait_again is not None and _has_ended(result)
            if not over:
                result.cancel()
        except Exception as error:  # whatever an engine's client raises
            raise IncompleteError(
                f"{job} could not be cancelled and may go on: {_first_line(error)}. To wait for it again, rerun the same command."
            ) from error
        if wait_again is not None and over:
            wait_again()
            return
        raise CancelledError(
            f"{job} was cancelled. What is finished is kept under {config.output}/{naming.PARTS}; rerun the same command to "
            "carry on."
        ) from None


def _has_ended(result: Any) -> bool:
    from apache_beam.runners.runner import PipelineState

    return bool(PipelineState.is_terminal(result.state))


def _shall_cancel(config: BuildConfig, number: int) -> bool:
    if config.on_interrupt is not None:
        return config.on_interrupt == "cancel"
    if number != signal.SIGINT or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(_QUESTION)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextlib.contextmanager
def _engine_trouble(config: BuildConfig) -> Iterator[None]:
    """Says plainly that an engine cannot be reached or was lost.

    A thread of Beam's gives another account of every failure, traceback and all, before the wait ends; it is not shown.
    """
    before = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        # When the engine is lost each of a worker's threads says so, and the wait ends by it too.
        lost = args.exc_type.__module__.startswith("grpc.") or str(args.exc_value).endswith("Channel closed!")
        if not lost and (args.thread is None or args.thread.name != _READER):
            before(args)

    def is_news(record: logging.LogRecord) -> bool:
        return record.threadName != _READER or record.levelno < logging.ERROR

    threading.excepthook = hook
    logging.getLogger().addFilter(is_news)
    try:
        yield
    except Exception as error:
        for thread in threading.enumerate():
            if thread.name == _READER:
                thread.join(_LAST_WORDS_SECONDS)
        endpoint = config.engine.arg("job_endpoint")
        if endpoint is not None and type(error).__name__ == "FutureTimeoutError":
            seconds = config.engine.arg("job_server_timeout") or "300"
            raise IncompleteError(
                f"no engine answers at --job_endpoint {clip(endpoint)} (waited for {seconds} s, --job_server_timeout). "
                "Start it, then rerun the same command."
            ) from error
        if type(error).__module__.startswith("grpc."):
            pool = config.engine.arg("environment_config")
            remedy = "Rerun" if pool is None else f"See that it runs, and the workers at {clip(pool)}, then rerun"
            said = f"the engine was lost: {_first_line(error)}. {remedy} the same command to carry on."
            if not config.engine.outlives_launcher:
                leave(said)  # at once: each thread of a worker in this process would end with pages of its own
            raise IncompleteError(said) from error
        raise
    finally:
        threading.excepthook = before
        logging.getLogger().removeFilter(is_news)


def _is_no_answer(error: Exception) -> bool:
    """Whether a cluster that is spoken to over HTTP (``--flink_submit_uber_jar``) could not be reached."""
    import requests  # Beam's; it takes a tenth of a second

    return isinstance(error, (requests.ConnectionError, requests.Timeout))


def _first_line(error: Exception) -> str:
    """What an error says; gRPC's wrap it into several lines of their own."""
    details = getattr(error, "details", None)
    text = str(details() if callable(details) else error) or type(error).__name__
    return clip(text.splitlines()[0].rstrip("."), 300)
