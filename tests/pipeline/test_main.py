"""The program's very end."""

from __future__ import annotations

import subprocess
import sys

from tests.kit.sources import ROOT

# What a command leaves to the interpreter: how many objects its last collections need not look at.
END = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count()))
from shardfeed.__main__ import main
sys.argv = ["shardfeed", *sys.argv[1:]]
sys.exit(main())
"""


def test_the_interpreter_does_not_look_for_cycles_once_more_when_a_command_has_ended() -> None:
    ended = subprocess.run([sys.executable, "-c", END, "status", "/no/such"], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 4, ended.stderr
    assert int(ended.stdout.splitlines()[-1]) > 1000
