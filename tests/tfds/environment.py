"""An environment with the real TFDS, beside the one that runs the tests.

TFDS pins an old Beam and an old Pillow, so it cannot be installed here. The environment sees this
interpreter's packages (TensorFlow among them: no second download of 600 MB) through a ``.pth``
file, and adds TFDS and the little that it needs and this interpreter lacks. It is kept in
``.engines`` and made again when what it is made of changes.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.kit.fetched import offline
from tests.kit.sources import ROOT

FOLDER = ROOT / ".engines" / "tfds-venv"
PACKAGES = Path(__file__).with_name("packages.txt")


def tfds_python() -> Path:
    """The interpreter of the environment, which is made if needed. A failure names the command."""
    FOLDER.parent.mkdir(exist_ok=True)
    with open(FOLDER.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        return _made()


def _made() -> Path:
    marker = FOLDER / "made-of.json"
    made_of = json.dumps([PACKAGES.read_text(), sys.version, sys.executable, sysconfig.get_path("purelib")])
    python = FOLDER / "bin" / "python"
    if marker.is_file() and marker.read_text() == made_of and python.exists():
        return python
    shutil.rmtree(FOLDER, ignore_errors=True)
    _run(sys.executable, "-m", "venv", str(FOLDER))
    _run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", *offline(), "--requirement", str(PACKAGES))
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(packages, "tests-interpreter.pth").write_text(sysconfig.get_path("purelib") + "\n")
    marker.write_text(made_of)
    return python


def run_with_tfds(script: Path, *arguments: str) -> str:
    """What ``script`` prints, run with TFDS."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": ""}
    return _run(str(tfds_python()), str(script), *arguments, env=os.environ | quiet)


def _run(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise AssertionError(f"exit {done.returncode} of: {' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout
