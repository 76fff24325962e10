"""Warns if a finite training stream is read again: the second reading repeats the first.

A stream is a function of its arguments, because resuming by ``start_step`` depends on it. So a
stream of ``epochs=1`` that is read three times trains three times in one order, with the same
random crops and without the same records. Other readers shuffle anew at each iteration, and a loop
that was written for them goes wrong here without a sign.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from shardfeed.warning import users_line


class Repeats:
    """Called at least at the first and the last batch of each reading.

    Warns once, at the line that made the stream.
    """

    def __init__(self, split: str, epochs: int) -> None:
        self._split, self._epochs = split, epochs
        self._file, self._line = users_line()
        self._ends, self._warned = 0, False

    def __call__(self, first: bool, last: bool) -> None:
        """A batch is handed out.

        Only readings to the end count: Keras on JAX takes one batch to build a model.

        If the stream has one batch only, that look is a reading to the end, so the third one warns.
        """
        if _paused:
            return
        if first and self._ends > last and not self._warned:
            self._warned = True
            warnings.warn_explicit(
                f"{self._split}: this stream of epochs={self._epochs} was read to its end and is read again. It repeats "
                "the same order, the same random crops and leaves out the same records. Pass epochs=N and read it once, "
                "or leave epochs out and give fit a steps_per_epoch.",
                UserWarning,
                self._file,
                self._line,
            )
        self._ends += bool(last)


_paused = False


@contextlib.contextmanager
def not_counted() -> Iterator[None]:
    """Readings in the block do not count: nobody is trained with them."""
    global _paused
    _paused = True
    try:
        yield
    finally:
        _paused = False
