"""Hooks on the store: every step on the disk and every call is seen.

A process can end, or wait, before any of them.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shardfeed.transforms import stores
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.builder import Request
from tests.kit.hooks import appender, put, run_other

_making = threading.Lock()


class SteppedStore(WritableLocalStore):
    """A local store that reports "what" and "where" before every step that changes the disk.

    To make a folder that is there is no step, nor is to remove a file that is not there. A sync is
    none either: it changes nothing that a killed process could leave otherwise.
    """

    before: Callable[[str, str, Callable[[], None]], None]

    def _step(self, what: str, path: str, tear: Callable[[], None]) -> None:
        type(self).before(what, os.path.relpath(path, self.root), tear)

    def _mkdir(self, path: str) -> None:
        with _making:  # two threads must not both find it absent: the number of steps would depend on their race
            if not os.path.isdir(path):
                self._step("mkdir", path, _nothing)
            super()._mkdir(path)

    def _write_temp(self, path: str, data: bytes, durable: bool) -> None:
        def tear() -> None:
            WritableLocalStore._write_temp(self, path, data, durable)
            os.truncate(path, os.path.getsize(path) // 2)

        self._step("write", path, tear)
        super()._write_temp(path, data, durable)

    def _concatenate_temp(self, path: str, sources: Sequence[str]) -> None:
        def tear() -> None:
            WritableLocalStore._concatenate_temp(self, path, sources)
            os.truncate(path, os.path.getsize(path) // 2)

        self._step("write", path, tear)
        super()._concatenate_temp(path, sources)

    def _link(self, temp: str, final: str) -> None:
        self._step("link", final, _nothing)
        super()._link(temp, final)

    def _unlink(self, path: str) -> None:
        if os.path.lexists(path):
            self._step("unlink", path, _nothing)
        super()._unlink(path)

    def _rmdir(self, path: str) -> None:
        if os.path.isdir(path) and not os.listdir(path):
            self._step("rmdir", path, _nothing)
        super()._rmdir(path)


def _nothing() -> None:
    pass


def kind_of(step: str) -> str:
    """A step with N for every number and hash; each run takes equally many of each kind."""
    return re.sub(r"[0-9a-f]{8,}|[0-9]+", "N", step)


def _before_steps(before: Callable[[str, Callable[[], None]], None]) -> None:
    lock = threading.Lock()

    def one_by_one(what: str, path: str, tear: Callable[[], None]) -> None:
        with lock:
            before(f"{what} {path}", tear)

    put(stores, "open_output", type("WatchedStore", (SteppedStore,), {"before": staticmethod(one_by_one)}))


def record_steps(log: Path) -> None:
    """Writes "what path" of every step to ``log``."""
    write = appender(log)
    _before_steps(lambda step, _tear: write(f"{step}\n".encode()))


def kill_before(kind: str, index: int, torn: bool) -> None:
    """SIGKILL before the step with this index among those of its kind.

    ``torn``: half of what the step writes is written by then. A step is named by its kind because
    threads make parts side by side: its number in the whole build differs from run to run.
    """
    indexes = itertools.count()

    def kill(step: str, tear: Callable[[], None]) -> None:
        if kind_of(step) == kind and next(indexes) == index:
            if torn:
                tear()
            os.kill(os.getpid(), signal.SIGKILL)

    _before_steps(kill)


# ---- calls on the store


def before_calls(act: Callable[[int, str, str], None]) -> None:
    """Calls ``act(number, method, name)`` before every call of the store."""
    count = iter(range(1 << 30))
    lock = threading.RLock()

    def wrap(name: str) -> Callable[..., Any]:
        method = getattr(WritableLocalStore, name)

        def called(self: WritableLocalStore, *args: Any, **kwargs: Any) -> Any:
            with lock:
                act(next(count), name, args[0] if args else "")
            return method(self, *args, **kwargs)

        return called

    members = {name: wrap(name) for name in ("read", "stat", "checksum", "list", "create", "compose", "delete")}
    put(stores, "open_output", type("CalledStore", (WritableLocalStore,), members))


def record_calls(log: Path) -> None:
    """Writes "method name" of every call to ``log``."""
    write = appender(log)
    before_calls(lambda _number, method, name: write(f"{method} {name}\n".encode()))


def run_before_call(number: int, other: Request, answer: Path) -> None:
    """Before the call of this number another command runs to its end (``run_other``)."""
    before_calls(lambda call, _method, _name: run_other(other, answer) if call == number else None)
