"""The progress line: rewritten on a terminal; elsewhere a plain line now and then."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from shardfeed.transforms.run.state import Run
from shardfeed.words import duration, human_bytes

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 10.0  # in a log a line must be worth keeping


@contextlib.contextmanager
def progress_line(stream: TextIO | None, run: Run) -> Iterator[None]:
    """Shows how far ``run`` is while the block runs. Silent if ``stream`` is None."""
    if stream is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_keep_showing, args=(stream, run, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _keep_showing(stream: TextIO, run: Run, ended: threading.Event) -> None:
    terminal, shown = stream.isatty(), False
    began: float | None = None
    start_done = 0
    while not ended.wait(_TERMINAL_SECONDS if terminal else _LOG_SECONDS):
        if began is None and run.done > run.kept:
            began, start_done = time.monotonic(), run.done
        rate = (run.done - start_done) / max(time.monotonic() - began, 1e-9) if began else 0.0
        text = progress_text(run.step, run.done, run.total, run.rejected, run.out_bytes, rate)
        show(stream, f"\r\x1b[K{text}" if terminal else text, end="" if terminal else "\n")
        shown = True
    if terminal and shown:
        show(stream, "\r\x1b[K", end="")


def show(stream: TextIO | None, text: str, end: str = "\n") -> None:
    """Writes ``text`` to ``stream``, if there is one, at once."""
    if stream is not None:
        stream.write(text + end)
        stream.flush()


def progress_text(step: str, done: int, total: int, rejected: int, size: int, rate: float) -> str:
    """One line: step, images done of total, images per second, bytes written, time left."""
    if not total:
        return f"{step} …"
    text = f"{step} {done:,} of {total:,} images ({100 * done // total} %)"
    if rate > 0 and step == "encoding":
        text += f", {rate:,.0f} img/s, {duration((total - done) / rate)} left"
    text += f", {human_bytes(size)}"
    return text + (f", {rejected:,} rejected" if rejected else "")
