"""Which flags are Beam's: a flag that neither we nor Beam know is an error."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from typing import Any, NoReturn

from shardfeed.errors import UsageError, clip


def require_beam() -> None:
    """Raises UsageError if Apache Beam is not installed; only builds with ``--runner`` need it."""
    if importlib.util.find_spec("apache_beam") is None:
        raise UsageError("build: Apache Beam is not installed here. Install it with: pip install 'shardfeed[beam]'")


class _Parser(argparse.ArgumentParser):
    """argparse with our form of an error: its own would show all of Beam's flags."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: Beam does not take this: {message}. See `shardfeed {self.prog} --help`.")


def refuse_unknown(args: Sequence[str], command: str) -> None:
    """Raises UsageError for the first argument of ``command`` that Beam does not know or refuses.

    Imports Beam (about a second).
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    parser: Any = _Parser(prog=command, add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for cls in PipelineOptions.__subclasses__():
        cls._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(args))
    if unknown:
        raise UsageError(
            f"{command}: unknown argument {clip(unknown[0])}. It is neither a flag of shardfeed nor of Apache Beam. "
            f"See `shardfeed {command} --help`."
        )
