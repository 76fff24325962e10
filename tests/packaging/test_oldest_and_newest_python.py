"""The wheel on the oldest Python with the lowest dependencies, on the newest with the highest.

``make versions`` runs the same program with the extras [beam] and [tf-cpu], whose environments
take gigabytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.kit import fetched
from tests.kit.commands import write_photos
from tests.kit.sources import ROOT

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd="/", env={**CLEAN, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the wheel and of the source package that it was built from."""
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


def test_the_index_accepts_their_metadata(dist: Path) -> None:
    said = _run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    assert said.count("PASSED") == 2


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_a_dataset_is_built_verified_and_read(which: str, dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    photos = write_photos(tmp_path / "photos", cat=6, dog=6)
    said = _run(
        fetched.python(which),
        ROOT / "tests/packaging/program.py",
        "base",
        photos,
        PYTHONPATH=str(tmp_path / "site"),
    )
    assert said.startswith({"oldest": "done on Python 3.10.", "newest": "done on Python 3.14."}[which])
