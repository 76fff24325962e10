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
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
