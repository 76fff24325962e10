"""A worker's Python: an environment that holds the source package, without its extras, and sees Beam behind it.

The checkout is not on its path, its processes run in ``/`` with no PYTHONPATH, so that what works there works from the
package alone. What workers do is seen and changed by a piece of Python that each runs before anything else (``Worker.hook``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.packaging import sources

_SITE = """
import os, sys
if "SdkHarness" in " ".join(sys.orig_argv):
    exec(open({hook!r}).read())
"""
_FILES = ("LICENSE", "README.md", "pyproject.toml", "setup.py")


@dataclass(frozen=True)
class Worker:
    """``python`` of the environment, and ``site``, the folder that the package was installed into."""

    python: Path
    site: Path

    @property
    def hook(self) -> Path:
        """A file of Python that every worker process runs first."""
        return self.site / "hook.txt"

    def environment(self, home: Path) -> dict[str, str]:
        """A worker machine's variables: nothing of this process but the way to the system's programs."""
        path = f"{self.python.parent}{os.pathsep}{os.defpath}"  # Beam's worker pool starts plain "python"
        return {"PATH": path, "HOME": str(home), "TMPDIR": str(home)}


def make_worker(folder: Path) -> Worker:
    """Builds the source package from a copy of the checkout, and installs it into a new environment."""
    copy, dist, home = folder / "tree", folder / "dist", folder / "environment"
    copy.mkdir()
    for name in _FILES:
        shutil.copy(sources.ROOT / name, copy)
    for package in sources.PACKAGES:
        shutil.copytree(sources.ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    _run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", dist, copy)
    (archive,) = dist.iterdir()
    _run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile")
    _run(sys.executable, *pip, "--no-index", "--no-deps", "--no-build-isolation", "--target", site, archive)
    (site / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")  # .pth files there are not read
    worker = Worker(python, site)
    worker.hook.touch()
    (site / "sitecustomize.py").write_text(_SITE.format(hook=str(worker.hook)))
    return worker


def _run(*command: str | Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(word) for word in command], cwd="/", env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
