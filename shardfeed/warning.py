"""Warnings that point at the line of the user's program that caused them, however deep in here they are found.

The one decision: frames are counted, not known. ``load`` is called directly, by ``distribute`` through TensorFlow, or by the
function that ``input_fn`` made; a fixed ``stacklevel`` would be right for one of them.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_BETWEEN = frozenset({"shardfeed", "tensorflow", "contextlib"})  # packages between a user's line and what it caused


def warn(text: str) -> None:
    """Warn of ``text`` at the innermost line that is not of this package, nor of one that calls it back."""
    warnings.warn(text, stacklevel=_users_frame()[0])


def users_line() -> tuple[str, int]:
    """File and number of that line, for a warning that comes later, from another thread."""
    _, frame = _users_frame()
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("shardfeed", 0)


def _users_frame() -> tuple[int, FrameType | None]:
    """That frame, and its stack level as counted from the caller."""
    level, frame = 0, sys._getframe().f_back
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return level + 1, frame
