"""Keeps what Beam says during a run, and shows it only if nothing else explains how the run ended.

A failure in a step reaches the launcher as an exception. Beam also prints it, logs it, and lets
threads end by it: pages that would bury our message. Wording and thread names change with Beam's
releases, so neither is looked at. What counts is that code of Beam or of gRPC said it.

The hooks are those of the whole process. The first run installs them and the last one removes them,
so a program that calls the library is left as it was. Nobody can tell to which of several runs a
thread of Beam belongs, so each run keeps what is said while it lasts.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from shardfeed import signals

MOST = 200  # entries that a run keeps: the latest
THREADS_SECONDS = 2.0  # for threads of Beam's that lose their engine when a run fails; they take some 0.3 s

_PACKAGES = ("apache_beam", "grpc")


class Said:
    """What Beam has said: in its log from ``level`` on, on standard error, and as threads ended."""

    def __init__(self, level: int = logging.ERROR) -> None:
        self.level = level
        self._texts: collections.deque[str] = collections.deque(maxlen=MOST)

    def add(self, text: str) -> None:
        """Keeps a text, if it is not empty."""
        if text.strip():
            self._texts.append(text.strip())

    def beside(self, error: Exception) -> list[str]:
        """The texts that say something else than ``error``, the oldest first."""
        known = str(error)
        return [text for text in self._texts if text not in known and not (known and known in text)]

    def show(self, error: Exception) -> None:
        """Logs what Beam said besides ``error``, at level ERROR of our logger."""
        if texts := self.beside(error):
            logging.getLogger("shardfeed").error("Apache Beam said meanwhile:\n%s", "\n".join(texts))


@contextlib.contextmanager
def kept(said: Said) -> Iterator[None]:
    """In the block ``said`` gets what Beam says, and nobody else does.

    In the command line this lasts to the end of the process, because some threads end only then.
    """
    _HOOKS.add(said)
    try:
        yield
    except BaseException:
        _HOOKS.await_last_words()
        raise
    finally:
        if not signals.is_installed():
            _HOOKS.remove(said)


class _Hooks:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening: tuple[Said, ...] = ()
        self._folder = ""  # of Beam's code
        self._installed = contextlib.ExitStack()

    def add(self, said: Said) -> None:
        with self._lock:
            if not self._listening:
                self._install()
            self._listening += (said,)

    def remove(self, said: Said) -> None:
        with self._lock:
            self._listening = tuple(other for other in self._listening if other is not said)
            if not self._listening:
                self._installed.close()

    def _install(self) -> None:
        import apache_beam
        from apache_beam.runners.worker import sdk_worker

        undo, handler, self._folder = self._installed.callback, _Handler(), apache_beam.__path__[0] + os.sep
        for package in _PACKAGES:
            logger = logging.getLogger(package)
            undo(setattr, logger, "propagate", logger.propagate)
            undo(logger.removeHandler, handler)
            logger.addHandler(handler)
            logger.propagate = False
        root = logging.getLogger()
        if not root.handlers and logging.lastResort is not None:
            # Without a handler, Beam's logging.debug() would give the root logger one for good.
            # Python itself uses lastResort if there is no handler.
            undo(root.removeHandler, logging.lastResort)
            root.addHandler(logging.lastResort)
        undo(root.removeFilter, self._passes)
        root.addFilter(self._passes)
        undo(vars(sdk_worker).pop, "print", None)
        vars(sdk_worker)["print"] = self._print
        before = threading.excepthook

        def hook(args: threading.ExceptHookArgs) -> None:
            is_beams = _is_beams(frame for frame, _ in traceback.walk_tb(args.exc_traceback))
            error = (args.exc_type, args.exc_value, args.exc_traceback)
            if not (is_beams and self.keep(logging.CRITICAL, "".join(traceback.format_exception(*error)))):
                before(args)

        undo(_restore_excepthook, hook, before)
        threading.excepthook = hook

    def keep(self, level: int, text: str) -> bool:
        """Gives a text to the runs that want it; False if none does."""
        wanted = [said for said in self._listening if level >= said.level]
        for said in wanted:
            said.add(text)
        return bool(wanted)

    def _passes(self, record: logging.LogRecord) -> bool:
        """A filter of the root logger, to which Beam logs what an engine tells it."""
        return not (record.pathname.startswith(self._folder) and self.keep(record.levelno, _text_of(record)))

    def _print(self, *values: object, sep: str | None = " ", **_where: Any) -> None:
        self.keep(logging.CRITICAL, (" " if sep is None else sep).join(map(str, values)))

    def await_last_words(self) -> None:
        """Waits until no thread runs Beam's code; not long, for some wait for work for ever."""
        deadline = time.monotonic() + (0 if signals.is_installed() else THREADS_SECONDS)
        while time.monotonic() < deadline and any(map(_runs_beam, sys._current_frames().values())):
            time.sleep(0.02)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not _HOOKS.keep(record.levelno, _text_of(record)):
            logging.getLogger().callHandlers(record)  # where it would have gone


_HOOKS = _Hooks()
_text_of = logging.Formatter().format


def _runs_beam(innermost: FrameType) -> bool:
    return _is_beams(reversed([frame for frame, _ in traceback.walk_stack(innermost)]))


def _is_beams(frames: Iterator[FrameType]) -> bool:
    """Whether a thread was started to run code of Beam or gRPC; ``frames``: the outermost first."""
    modules = (frame.f_globals.get("__name__", "") for frame in frames)
    return next((name for name in modules if name != threading.__name__), "").partition(".")[0] in _PACKAGES


def _restore_excepthook(ours: object, before: Any) -> None:
    if threading.excepthook is ours:  # else somebody's hook stands before ours, which passes on all from now on
        threading.excepthook = before
