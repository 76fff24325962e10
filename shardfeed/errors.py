"""Errors a user can meet, each with its exit code.

The class holds the code, because from a remote engine only the text of an error comes back and the
launcher has to map it again (see ``shardfeed.transforms.run.outcome``). Codes: 2 bad arguments, 3
too many rejects, 4 incomplete (rerun the same command), 5 conflicting output.
"""

from __future__ import annotations


class ShardfeedError(Exception):
    """Base of every error whose message is meant for the user.

    The message says what is wrong, the value, what is allowed and the remedy.
    """

    code = 1


class UsageError(ShardfeedError, ValueError):
    """The arguments, or the input they name, cannot give a dataset."""

    code = 2


class UnknownSplitError(UsageError, KeyError):
    """The dataset has no split of this name."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class TooManyRejectsError(ShardfeedError):
    """More images are unusable than ``--max_rejected`` allows, or all of a class or split.

    Or there are duplicates, and ``--duplicates fail`` allows none.
    """

    code = 3


class IncompleteError(ShardfeedError):
    """The run stopped before it published; the same command continues from its finished parts."""

    code = 4


class ConflictError(ShardfeedError):
    """The output holds something else, or another build is writing something else there."""

    code = 5


class DatasetError(ShardfeedError):
    """A dataset is absent, damaged or of an unknown version.

    Names the file, expected, found and the remedy.
    """

    code = 4


COPY_OR_REBUILD = "Copy the file from where the dataset is whole, or build the dataset again into an empty folder."
"""The remedy for a damaged file of a dataset that somebody reads."""


def clip(value: object, limit: int = 200) -> str:
    """A value as an error message shows it: escaped, and cut at ``limit`` characters."""
    try:
        text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = f"({type(value).__name__} with too many digits)"
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
