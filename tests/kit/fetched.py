"""What the scripts of ``make engines`` have fetched for the tests, once, into ``.engines/``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kit.sources import ROOT


def prism() -> Path:
    """Prism, built from its source."""
    return _fetched("engines.sh")


def azurite() -> Path:
    """Azurite's server of blobs."""
    return _fetched("azurite.sh")


def axe() -> Path:
    """axe-core, as a script for a page."""
    return _fetched("axe.sh")


def chromium() -> Path:
    """The browser."""
    return _fetched("chromium.sh")


def python(which: str) -> Path:
    """The ``oldest`` or ``newest`` Python, with the base dependencies and without shardfeed."""
    return _fetched("pythons.sh", which)


def offline() -> list[str]:
    """Options of pip: it installs from the wheels that were collected, and looks nowhere else."""
    return ["--no-index", "--find-links", str(_fetched("wheels.sh", sys.executable))]


def _fetched(script: str, *arguments: str) -> Path:
    done = subprocess.run([ROOT / "tools" / script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ROOT / done.stdout.strip()
