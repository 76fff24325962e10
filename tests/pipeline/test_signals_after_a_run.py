"""Ctrl-C and SIGTERM after a command has said how it ended, while the interpreter ends."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.commands import environment, write_photos

# ``shardfeed``, which a signal meets among what Beam and others have registered for the
# interpreter's end.
AT_THE_END = """
import atexit, signal, sys
from shardfeed import __main__
atexit.register(signal.raise_signal, {number})
sys.exit(__main__.main())
"""

# The same when the interpreter has put the system's own handling of signals back.
AFTER_ALL = """
import os, sys
from shardfeed import __main__
class Last:  # kept by ``sys``, which the interpreter takes apart last
    def __del__(self, kill=os.kill, process=os.getpid()):
        kill(process, {number})
sys.ours = Last()
sys.exit(__main__.main())
"""

# ``shardfeed`` with a command ``status`` of ours. A thread still waits when the command has ended, as
# for a bucket that does not answer.
WITH_A_THREAD = """
import sys, threading
from shardfeed import __main__
from shardfeed.pipeline.cli import commands
def status(args, rest):
    {does}
commands._status = status
threading.Thread(target=threading.Event().wait).start()
try:
    code = __main__.main()
finally:
    print("ended", flush=True)
sys.exit(code)
"""


@contextlib.contextmanager
def _running(program: list[str], err: int) -> Iterator[subprocess.Popen[str]]:
    """A program that is killed with the block: a thread of it waits for ever."""
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=err, text=True, env=environment()) as child:
        try:
            yield child
        finally:
            child.kill()


def _signalled_at_the_end(number: signal.Signals, does: str, *args: str) -> tuple[int, str]:
    """Exit code of a command that gets a signal after it has ended, and what it says then."""
    with _running([sys.executable, "-c", WITH_A_THREAD.format(does=does), *args], subprocess.STDOUT) as child:
        assert child.stdout is not None
        assert "ended\n" in iter(child.stdout.readline, "")
        child.send_signal(number)
        said, _ = child.communicate(timeout=60)
    return child.returncode, said


@pytest.mark.parametrize(
    ("script", "number", "args", "code"),
    [
        (AT_THE_END, signal.SIGTERM, "build --input {0}/in --output {0}/out --image_size 16", 0),
        (AFTER_ALL, signal.SIGINT, "verify {0}/absent", 4),
    ],
    ids=["at the end of a build", "after all of a verdict"],
)
def test_a_signal_after_a_command_has_ended_changes_nothing(
    tmp_path: Path, script: str, number: signal.Signals, args: str, code: int
) -> None:
    write_photos(tmp_path / "in", cat=2, dog=2)
    program = [sys.executable, "-c", script.format(number=int(number)), *args.format(tmp_path).split()]
    ended = subprocess.run(program, capture_output=True, text=True, env=environment(), check=False)
    assert (ended.returncode, ended.stdout.startswith("Built: ")) == (code, code == 0)
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize(
    ("number", "args", "code"),
    [(signal.SIGINT, (), 2), (signal.SIGTERM, ("status", "/"), 5)],
    ids=["the help", "a verdict"],
)
def test_a_signal_ends_what_still_waits_when_a_command_has_ended(
    number: signal.Signals, args: tuple[str, ...], code: int
) -> None:
    assert _signalled_at_the_end(number, "return 5, 'a verdict'", *args) == (code, "")


@pytest.mark.parametrize(
    ("number", "does", "code"),
    [
        (signal.SIGINT, "raise RuntimeError", 1),
        (signal.SIGTERM, "sys.exit('no')", 1),
        (signal.SIGINT, "sys.exit(7)", 7),
        (signal.SIGTERM, "sys.exit()", 0),
    ],
    ids=["a bug", "a text", "a number", "nothing"],
)
def test_a_signal_does_not_change_how_code_that_is_not_ours_ended(number: signal.Signals, does: str, code: int) -> None:
    ended, said = _signalled_at_the_end(number, does, "status", "/")
    assert (ended, "stopped" in said) == (code, False)


def test_a_result_that_was_cut_off_is_not_called_complete() -> None:
    """A pipe holds 64 kB; nobody reads the rest."""
    program = [sys.executable, "-c", WITH_A_THREAD.format(does="return 0, 'x' * 400_000"), "status", "/"]
    with _running(program, subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.read(1) == "x"
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        assert child.wait(60) == 4
    assert said == "shardfeed: stopped before status was complete; rerun the same command.\n"
