"""The command line. It imports a command's code when called, so ``--help`` answers at once."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from shardfeed._version import __version__
from shardfeed.cli.dataset_commands import add_dataset_command
from shardfeed.cli.stderr import forgiving_stderr
from shardfeed.errors import IncompleteError, ShardfeedError, UsageError

COMMANDS = {
    "build": "make a dataset from images",
    "plan": "forecast a build and its cost; writes nothing",
    "verify": "check a dataset",
    "status": "say how far a build is, and what to do next",
    "inspect": "show a summary of a dataset and its first records",
    "find": "list the records that fulfil a condition",
    "report": "write a page about a dataset: classes, sizes, pictures, rejects, near-duplicates",
    "benchmark": "measure how fast a trainer here can read a dataset, and what holds it up",
}
_TELL = ("plan", "inspect", "find", "benchmark")  # of the others the exit code or a file is the result
PIPELINE_COMMANDS = ("build", "plan", "status")  # of the job, whose code is imported only when one of them is called


def main(argv: Sequence[str] | None = None, decided: Callable[[int], object] = lambda code: None) -> int:
    """Runs one command; returns the exit code (see ``shardfeed build --help``).

    ``decided`` gets the code as soon as it is certain.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show must not fail a finished build
        sys.stdout.reconfigure(errors="backslashreplace")
    with forgiving_stderr():
        try:
            return _run(sys.argv[1:] if argv is None else argv, decided)
        except SystemExit as leaving:  # argparse has printed why; another library gives a text
            decided(leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None))
            raise
        except BaseException:
            decided(1)
            raise


def _run(argv: Sequence[str], decided: Callable[[int], object]) -> int:
    arguments = _underscored(argv)
    parser = _parser(next((arg for arg in arguments if not arg.startswith("-")), None))
    known, rest = parser.parse_known_args(arguments)
    if known.command is None:
        parser.print_help()
        decided(UsageError.code)
        return UsageError.code
    code, text, why = _result(known, rest)
    if known.command == "build":
        decided(code)  # printing may fail, which changes nothing about the dataset
    if why:
        print(f"shardfeed: {why}", file=sys.stderr)
    elif text is not None:
        code = _after(_say(text), code, known.command)
    decided(code)
    return code


def _result(known: argparse.Namespace, rest: Sequence[str]) -> tuple[int, str | None, str]:
    """(exit code, result, "") of a command, or (exit code, "", why there is no result).

    The result is None if it was printed already, in pieces.
    """
    try:
        if rest and known.command not in ("build", "plan"):
            raise UsageError(f"{known.command}: unknown argument {rest[0]}. See `shardfeed {known.command} --help`.")
        code, found = known.run(known, rest)
        if isinstance(found, str):
            return int(code), found, ""
        stopped = next(filter(None, map(_say, found)), None)  # pieces, each as soon as it is there
        return _after(stopped, int(code), known.command), None, ""
    except ShardfeedError as error:
        return error.code, "", str(error)
    except FileNotFoundError:
        if _has_current_folder():
            raise
        return (
            UsageError.code,
            "",
            "the current folder has been deleted, so that relative paths mean nothing. Change to a folder that is there (cd), "
            "then run the command again.",
        )
    except RuntimeError as error:
        if "start new thread" not in str(error):  # Python's own words, on every system
            raise
        return (
            IncompleteError.code,
            "",
            "the system allows no further thread or process. Raise the limit (ulimit -u, ulimit -v, the container's pids limit), "
            "or end other programs, then run the same command again.",
        )
    except KeyboardInterrupt:  # in a host program, which has its own handler
        return IncompleteError.code, "", f"stopped before {known.command} was complete; rerun the same command."


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _after(stopped: OSError | None, code: int, command: str) -> int:
    """The exit code of a ``command`` that ended with ``code``, and whose printing was ``stopped``.

    A closed pipe changes nothing, as of ``head``. Nor does a full disk, unless the text is all that
    the command gives.
    """
    is_lost = stopped is not None and not isinstance(stopped, BrokenPipeError) and command in _TELL
    return code or IncompleteError.code if is_lost else code


def _say(text: str) -> OSError | None:
    """Prints a result; gives what stopped it, if anything did."""
    try:
        print(text, flush=True)
        return None
    except OSError as error:
        # What is still buffered would fail again when the interpreter ends, and change the exit
        # code then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"shardfeed: the result could not be printed: {error}", file=sys.stderr)
        return error


def _underscored(argv: Sequence[str]) -> list[str]:
    out = []
    for arg in argv:
        name, equals, value = arg.partition("=")
        out.append(name.replace("-", "_").replace("__", "--", 1) + equals + value if arg.startswith("--") else arg)
    return out


class _Parser(argparse.ArgumentParser):
    """argparse with our form of errors and exit code.

    Flags cannot be abbreviated, because a new flag must not change an old command.
    """

    def error(self, message: str) -> None:  # type: ignore[override]
        message = message.replace("invalid int value:", "expected a whole number, not")
        message = message.replace("invalid float value:", "expected a number, not")
        print(f"shardfeed: {message}. See `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(UsageError.code)


def _parser(called: str | None) -> _Parser:
    """All commands, and the flags of the one that is called."""
    parser = _Parser(
        prog="shardfeed",
        description="Turns a folder or bucket of images, one folder per class, into a verified TFRecord dataset.",
        epilog="shardfeed COMMAND --help explains a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"shardfeed {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, what in COMMANDS.items():
        below = commands.add_parser(name, help=what, allow_abbrev=False)
        if name == called and name in PIPELINE_COMMANDS:
            from shardfeed.pipeline.cli.commands import add_command

            add_command(below, name)
        elif name == called:
            add_dataset_command(below, name)
    return parser
