"""Warnings that point at the line of the user's program that caused them.

The frames between are counted for each warning. ``load`` is called directly, by ``distribute``
through TensorFlow, or by the function that ``input_fn`` made; a fixed ``stacklevel`` would be
right for one of them only.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_BETWEEN = frozenset({"shardfeed", "tensorflow", "contextlib"})  # packages between a user's line and what it caused


def warn(text: str) -> None:
    """Warns at the innermost line outside of this package and of those that call it back."""
    warnings.warn(text, stacklevel=_users_frame()[0])


def users_line() -> tuple[str, int]:
    """File and number of that line, for a warning that another thread gives later."""
    _, frame = _users_frame()
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("shardfeed", 0)


def _users_frame() -> tuple[int, FrameType | None]:
    """The stack level of the user's innermost frame, counted from the caller, and the frame."""
    level, frame = 0, sys._getframe().f_back
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return level + 1, frame
