"""A worker's Python: an environment with the source package and Beam, but without our extras.

Its processes run in ``/`` without PYTHONPATH, so what works there works from the package alone.
Each runs a piece of Python first (``Worker.hook``), by which a test sees and changes what workers
do.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.kit import sources
from tests.kit.worker_python import WorkerPython, make_worker_python, run

_SITE = """
import os
if "SdkHarness" in " ".join(sys.orig_argv):
    exec(open({hook!r}).read())
"""


@dataclass(frozen=True)
class Worker(WorkerPython):
    """``hook`` is a file of Python that every worker process runs first."""

    hook: Path

    def environment(self, home: Path) -> dict[str, str]:
        """A worker machine's variables: of this process, only the path of the system's programs."""
        path = f"{self.python.parent}{os.pathsep}{os.defpath}"  # Beam's worker pool starts plain "python"
        return {"PATH": path, "HOME": str(home), "TMPDIR": str(home)}


def make_bare_worker(folder: Path) -> Worker:
    """A worker that has Beam, and no shardfeed."""
    hook = folder / "hook.txt"
    hook.touch()
    made = make_worker_python(folder / "environment", start=_SITE.format(hook=str(hook)))
    return Worker(made.python, made.site, hook)


def copy_sources(to: Path) -> Path:
    """What a source package is built from: setuptools writes into the tree."""
    to.mkdir(exist_ok=True)
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(sources.ROOT / name, to)
    for package in sources.PACKAGES:
        shutil.copytree(sources.ROOT / package, to / package, ignore=shutil.ignore_patterns("__pycache__"))
    return to


def make_worker(folder: Path) -> Worker:
    """Builds the source package from a copy of the checkout; installs it into a new environment."""
    copy, dist = copy_sources(folder / "tree"), folder / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", dist, copy)
    (archive,) = dist.iterdir()
    worker = make_bare_worker(folder)
    worker.install(archive)
    return worker
