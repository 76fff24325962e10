"""Keeps Beam's workers in this process quiet about failures.

A worker prints a traceback for whatever leaves a step, and logs it twice. The error itself goes to the engine all the same. The
launcher knows its reason (``transforms.outcome``) or shows one traceback of it (``pipeline.engine_failures``), so that the
message is not buried.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from apache_beam.runners.worker import sdk_worker

_LOGGERS = ("apache_beam.runners.common", sdk_worker.__name__)  # of a step, of the request to run it
# Threads of a worker that talk with the engine; the last one's name ends in the worker's id.
_THREADS = ("read_grpc_client_inputs", "read_state", "forward_grpc_outputs", "run_worker_")


def leave_failures_to_launcher() -> None:
    """Workers that are threads of this process say nothing of what fails in a step."""
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
