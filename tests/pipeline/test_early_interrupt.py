"""Ctrl-C before the command line listens for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.pipeline.photos import command, environment

# Runs at the start of the process; sends it SIGINT when it begins to import a module.
INTERRUPTED = """
import signal, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize("module", ["pipeline.cli", "pipeline.flags", "shardfeed.errors"])
def test_ctrl_c_while_the_command_line_is_imported_is_one_line_and_exit_4(tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED.format(module=module))
    env = environment(PYTHONPATH=f"{tmp_path}:{environment()['PYTHONPATH']}")
    ended = subprocess.run(command("verify", tmp_path), capture_output=True, text=True, env=env, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        4,
        "",
        "shardfeed: stopped; rerun the same command.\n",
    )
