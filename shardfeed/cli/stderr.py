"""Standard error that cannot fail: an unread message does not change how a command ends.

Otherwise a full disk, a pipe that nobody reads (``2>&1 | head``) or a closed descriptor would turn
every exit code into 1, the code of a bug.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO


class _Forgiving(io.TextIOBase):
    """Writes to ``stream`` until that fails, then nowhere."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if self._stream is not None:
            try:
                self._stream.write(text)
            except (OSError, ValueError):
                self._forget(self._stream)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._forget(self._stream)

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError("standard error is closed")
        return self._stream.fileno()

    def _forget(self, stream: TextIO) -> None:
        self._stream = None
        # What is still buffered would fail again when the interpreter ends, and change the exit
        # code then.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def forgiving_stderr() -> Iterator[None]:
    """``sys.stderr`` never raises in the block."""
    before = sys.stderr
    sys.stderr = _Forgiving(before)
    try:
        yield
    finally:
        sys.stderr = before
