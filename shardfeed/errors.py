"""Errors a user can meet, each with the exit code that the command line gives it.

One decision: an error carries its exit code from where it is found to where the process ends, because on a remote
engine only the text survives the way back and the launcher has to map it again (see ``shardfeed.transforms.run.outcome``).
Codes: 2 bad arguments, 3 too many rejects, 4 incomplete (rerun the same command), 5 conflicting output.
"""

from __future__ import annotations


class ShardfeedError(Exception):
    """Base of every error whose message is meant for the user. The text says what, the value, what is allowed and the remedy."""

    code = 1


class UsageError(ShardfeedError):
    """The arguments, or the input they name, cannot give a dataset."""

    code = 2


class TooManyRejectsError(ShardfeedError):
    """More images could not be used than ``--max_rejected`` allows, or a class or split lost all of its images."""

    code = 3


class IncompleteError(ShardfeedError):
    """The run stopped before it published; the same command carries on from its finished parts."""

    code = 4


class ConflictError(ShardfeedError):
    """The output holds, or is being given, something else."""

    code = 5


class DatasetError(ShardfeedError):
    """A dataset that is absent, damaged or of an unknown version; names the file, expected, found and the remedy."""

    code = 4


def clip(value: object, limit: int = 200) -> str:
    """A value as an error message shows it: escaped, and cut at ``limit`` characters."""
    try:
        text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = f"({type(value).__name__} with too many digits)"
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
