"""A worker machine's Python: what Beam and shardfeed with all formats depend on, and nothing else.

Installing Beam anew takes minutes. So an empty environment sees the tests' site-packages behind its
own, and its interpreter refuses other distributions (TensorFlow, pytest): their import fails as it
would on a worker.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.kit import sources

# Run by every interpreter of the environment, first.
_REFUSING = """
import sys
class _Refusing:
    names = {names!r}
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in cls.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, _Refusing)
"""


@dataclass(frozen=True)
class WorkerPython:
    """``python`` of the environment, and ``site``, the folder that packages are installed into."""

    python: Path
    site: Path

    def install(self, archive: Path) -> None:
        """Installs as a worker's start does, but without the network and without dependencies."""
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile")
        run(sys.executable, *pip, "--no-index", "--no-deps", "--no-build-isolation", "--target", self.site, archive)


def make_worker_python(home: Path, *, start: str = "") -> WorkerPython:
    """A new environment without shardfeed; its interpreters run ``start`` before anything else."""
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")  # .pth files there are not read
    (site / "started.py").write_text(_REFUSING.format(names=set(foreign_modules())) + start)
    (site / "started.pth").write_text("import started\n")  # a distribution's own sitecustomize would hide one of ours
    return WorkerPython(python, site)


def run(*command: str | Path) -> str:
    """What a command that has to succeed prints; it knows nothing of this process's Python."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(word) for word in command], cwd="/", env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@functools.cache
def foreign_modules() -> frozenset[str]:
    """Top-level modules here of no distribution that Beam or shardfeed depends on."""
    theirs = _with_dependencies([*_base_dependencies(), "apache-beam[gcp]"]) | {"shardfeed"}
    return frozenset(
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if theirs.isdisjoint(map(canonicalize_name, owners))
    )


def _base_dependencies() -> list[str]:
    text = (sources.ROOT / "pyproject.toml").read_text()  # Python 3.10 has no tomllib
    base = text.partition("\ndependencies = [\n")[2].partition("\n]")[0]
    formats = text.partition("\nformats = [")[2].partition("]\n")[0]  # as in our image of workers
    return re.findall(r'^  "([^"]+)"', base, re.MULTILINE) + re.findall(r'"([^"]+)"', formats)


def _with_dependencies(requirements: Iterable[str]) -> set[str]:
    """Names of the distributions that are asked for, and of all that they need here."""
    seen: set[tuple[str, str]] = set()
    left = [(requirement, "") for requirement in map(Requirement, requirements)]
    while left:
        wanted, extra = left.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        for extra in ("", *sorted(wanted.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                left += [(Requirement(line), extra) for line in _requires(name)]
    return {name for name, _ in seen}


def _requires(name: str) -> list[str]:
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # of another platform's, or optional to what names it
        return []
