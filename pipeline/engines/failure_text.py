"""Finds the cause in an engine's account of a failed job, and the remedy that fits it.

Engines give a worker's error as a traceback inside one or two of their own. The first error in it
is the cause; what follows was made of it on the way. A table's entry is a pattern of such a text
and our remedy. The first entry that fits wins, so the specific ones stand first.
"""

from __future__ import annotations

import re

from shardfeed.errors import clip

NO_PACKAGE = r"No module named '(transforms|pipeline|shardfeed)\b"
NO_DEPENDENCY = r"No module named '(obstore|simplejpeg|cykooz_resizer|PIL|numpy|google_crc32c|google)\b"

_SHOWN = 600  # characters of a text that is not ours
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception): (?!Traceback).+", re.MULTILINE)
_IN_A_STEP = "[while running '"  # Beam puts it at the end of an error that left a step of the graph
_TRACEBACK = "Traceback (most recent call last):"
_OURS = re.compile(r"^(shardfeed(?:\.\w+)+): ", re.MULTILINE)
_CONSEQUENCES = re.compile(r"\n\n*(?:During handling of|The above exception was)")


def first_remedy(text: str, table: tuple[tuple[str, str], ...]) -> str:
    """The remedy of the first entry whose pattern is found in ``text``; else empty."""
    return next((remedy for pattern, remedy in table if re.search(pattern, text)), "")


def before_traceback(text: str) -> str:
    """What an engine says in its own words: the text up to the first traceback."""
    return text.partition(_TRACEBACK)[0]


def telling_line(text: str) -> str:
    """A traceback's error, with the step if the text has it; the beginning of any other text."""
    errors = [found[0].strip() for found in _ERROR.finditer(text)]
    told = next((error for error in errors if _IN_A_STEP in error), errors[0] if errors else "")
    return clip(told or " ".join(text.partition(_TRACEBACK)[0].split()), _SHOWN)


def names_error(text: str) -> bool:
    """Whether an engine's account has an error in it, which ``telling_line`` finds."""
    return _ERROR.search(text) is not None


def step_error(text: str) -> tuple[str, str]:
    """Class (full name) and message of an error of ours that a step raised; else empty."""
    before, raised, _ = text.partition(_IN_A_STEP)
    heads = list(_OURS.finditer(before)) if raised else []
    message = before[heads[-1].end() :].removesuffix(" ") if heads else ""
    if _TRACEBACK in message:  # of a later error: that is the one that the step raised
        return "", ""
    return (heads[-1][1], message) if message else ("", "")


def step_traceback(text: str) -> str:
    """The traceback of the cause if a step of the graph failed; else empty."""
    if _IN_A_STEP not in text or _TRACEBACK not in text:
        return ""
    cause = _CONSEQUENCES.split(text, maxsplit=1)[0]
    return cause[cause.rindex(_TRACEBACK) :].strip()
