"""The progress line: rewritten on a terminal; elsewhere a plain line now and then."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TextIO

from shardfeed.transforms.run.state import Run
from shardfeed.words import duration, human_bytes

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 10.0  # in a log a line must be worth keeping


class ProgressLine:
    """Shows how far ``run`` is while the block runs. Silent if ``stream`` is None."""

    def __init__(self, stream: TextIO | None, run: Run) -> None:
        self._run = run
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="progress", daemon=True)
        self._shown = False

    def __enter__(self) -> ProgressLine:
        if self._stream is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._stream is not None:
            self._thread.join()
            if self._terminal and self._shown:
                self._stream.write("\r\x1b[K")
                self._stream.flush()

    def _loop(self) -> None:
        began: float | None = None
        start_done = 0
        run = self._run
        while not self._done.wait(_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS):
            if began is None and run.done > run.kept:
                began, start_done = time.monotonic(), run.done
            rate = (run.done - start_done) / max(time.monotonic() - began, 1e-9) if began else 0.0
            self._write(progress_text(run.step, run.done, run.total, run.rejected, run.out_bytes, rate))

    def _write(self, text: str) -> None:
        assert self._stream is not None  # the thread only runs with a stream
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else text + "\n")
        self._stream.flush()
        self._shown = True


def progress_text(step: str, done: int, total: int, rejected: int, size: int, rate: float) -> str:
    """One line: step, images done of total, images per second, bytes written, time left."""
    if not total:
        return f"{step} …"
    text = f"{step} {done:,} of {total:,} images ({100 * done // total} %)"
    if rate > 0 and step == "encoding":
        text += f", {rate:,.0f} img/s, {duration((total - done) / rate)} left"
    text += f", {human_bytes(size)}"
    return text + (f", {rejected:,} rejected" if rejected else "")
