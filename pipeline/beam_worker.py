"""Beam's worker, quiet about failures: ``python -m pipeline.beam_worker`` in place of Beam's own program.

It prints a traceback for whatever leaves a step, and logs it twice, to be printed by the launcher. The error itself goes to the
engine all the same; the launcher knows its reason (``transforms.outcome``) or shows one traceback of it
(``pipeline.engine_failures``), so that the message is not buried.
"""

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from apache_beam.runners.worker import sdk_worker, sdk_worker_main

_LOGGERS = ("apache_beam.runners.common", sdk_worker.__name__)  # of a step, of the request to run it
# Of a worker, that talk with the engine; the last, of a worker in the launcher, has the worker's id behind it.
_THREADS = ("read_grpc_client_inputs", "read_state", "forward_grpc_outputs", "run_worker_")


def leave_failures_to_launcher() -> None:
    """Workers of this process, threads of it or itself, say nothing of what fails in a step."""
    vars(sdk_worker)["print"] = _print_nothing
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_no_failure)
    if not isinstance(threading.excepthook, _ThreadsHook):
        threading.excepthook = _ThreadsHook(threading.excepthook)


class _ThreadsHook:
    """What ended a thread, shown as before; but not that a worker's thread lost an engine, which ends before its workers do."""

    def __init__(self, before: Callable[[threading.ExceptHookArgs], object]) -> None:
        self._before = before

    def __call__(self, args: threading.ExceptHookArgs) -> None:
        lost = args.exc_type.__module__.partition(".")[0] == "grpc"
        if not (lost and args.thread is not None and args.thread.name.startswith(_THREADS)):
            self._before(args)


def _print_nothing(*_text: Any, **_where: Any) -> None:
    pass


def _is_no_failure(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR


if __name__ == "__main__":
    leave_failures_to_launcher()
    sdk_worker_main.main(sys.argv)
