"""The pages that people read, and what stands in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        ROOT / "benchmarks/results.md",
        ROOT / "examples/SAMPLE_PHOTOS.md",
    ]
)


def blocks(page: str | Path, language: str) -> list[str]:
    """The code blocks of a page, in order."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run_python(
    code: str, folder: Path, python: str | Path = sys.executable, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs ``code`` in an interpreter of its own, as a reader of a page would."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    return subprocess.run([python, "-c", code], cwd=folder, env=env, capture_output=True, text=True)


def run_shell(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs commands of a page, with ``shardfeed`` of this interpreter."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(["bash", "-e", "-c", code], cwd=folder, env=env, capture_output=True, text=True)
