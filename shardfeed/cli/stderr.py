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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Forgiving(io.FileIO):
    """A file whose failed writes pass for done."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))


@contextlib.contextmanager
def forgiving_stderr() -> Iterator[None]:
    """``sys.stderr`` never raises in the block, unless a host program has put its own in place."""
    before = sys.stderr
    if before is sys.__stderr__:
        # None: the descriptor was closed at the start, and its number may be another file's now.
        file = _Forgiving(os.devnull if before is None else before.fileno(), "w", closefd=before is None)
        encoding = "utf-8" if before is None else before.encoding
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(file), encoding, "backslashreplace", line_buffering=True)
    try:
        yield
    finally:
        sys.stderr = before
