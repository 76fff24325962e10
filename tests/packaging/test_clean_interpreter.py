"""What starting costs: an interpreter of its own is asked what it has loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardfeed.testing import make_dataset
from tests.kit import sources

HEAVY = (
    "apache_beam",
    "PIL",
    "tensorflow",
    "keras",
    "jax",
    "google.cloud.storage",
    "google.auth",
    "obstore",
    "cykooz_resizer",
)
REPORT = f"import json, sys; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"


def run(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(sources.ROOT)}
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True)


def heavy_after(code: str, cwd: Path) -> list[str]:
    """The heavy modules loaded after ``code``, which may leave with ``SystemExit``."""
    done = run(f"try:\n  {code}\nexcept SystemExit:\n  pass\n{REPORT}", cwd)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_importing_the_plain_files_of_the_transforms_does_not_load_beam(tmp_path: Path) -> None:
    plain = [sources.module_name(p) for p in sources.files("transforms") if not sources.needs_beam(p)]
    code = (
        "import importlib, sys\n"
        f"for name in {plain!r}:\n"
        "  importlib.import_module(name)\n"
        "  if 'apache_beam' in sys.modules: sys.exit(f'{name} loads Beam')\n"
    )
    done = run(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argument", ["--help", "no_such_command"])
def test_the_command_answers_without_loading_anything_heavy(tmp_path: Path, argument: str) -> None:
    assert heavy_after(f"from shardfeed.cli.main import main; main([{argument!r}])", tmp_path) == []


def test_a_search_loads_neither_pillow_nor_tensorflow(tmp_path: Path) -> None:
    make_dataset(tmp_path / "out")
    assert heavy_after("from shardfeed.cli.main import main; main(['find', 'out', '--where', '1'])", tmp_path) == []
