"""Environments of their own for what cannot be installed beside the tests: TFDS, a fake of AWS.

TFDS pins an old Beam and an old Pillow, and moto brings forty packages. Such an environment sees
this interpreter's packages (TensorFlow among them: no second download of 600 MB) through a ``.pth``
file, and adds what its list names. It is kept in ``.engines`` and made again when what it is made
of changes.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.kit.fetched import offline
from tests.kit.sources import ROOT


def python_with(name: str) -> Path:
    """The interpreter of an environment with the packages of ``tests/NAME/packages.txt``.

    It is made if needed. A failure names the command.
    """
    folder = ROOT / ".engines" / f"{name}-venv"
    folder.parent.mkdir(exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        return _made(folder, ROOT / "tests" / name / "packages.txt")


def _made(folder: Path, packages: Path) -> Path:
    marker = folder / "made-of.json"
    made_of = json.dumps([packages.read_text(), sys.version, sys.executable, sysconfig.get_path("purelib")])
    python = folder / "bin" / "python"
    if marker.is_file() and marker.read_text() == made_of and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    # The tests' own pip installs: a new environment's takes ten seconds to make.
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    run(*pip, "install", "--quiet", "--no-deps", "--no-compile", *offline(), "--requirement", str(packages))
    installed = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(installed, "tests-interpreter.pth").write_text(sysconfig.get_path("purelib") + "\n")
    marker.write_text(made_of)
    return python


def run(*command: str, env: dict[str, str] | None = None) -> str:
    """What ``command`` prints."""
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise AssertionError(f"exit {done.returncode} of: {' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout
