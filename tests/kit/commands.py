"""Folders of tiny images, and the command line run in this process or in one of its own."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

REPOSITORY = Path(__file__).resolve().parents[2]
_PROGRESS = re.compile(r"^(starting|listing|encoding|publishing|sweeping) .*\n", re.MULTILINE)


def photo(seed: int) -> bytes:
    """A JPEG of 32 x 24 pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=60)
    return out.getvalue()


def write_photos(root: Path, **counts: int) -> Path:
    """``root`` with as many images per class folder as given."""
    for name, count in counts.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (root / name / f"{i:03}.jpg").write_bytes(photo(i))
    return root


def command(*args: str | os.PathLike[str]) -> list[str]:
    """The command line of ``shardfeed`` in a process of its own."""
    return [sys.executable, "-m", "shardfeed", *(os.fspath(arg) for arg in args)]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment for a child that is started anywhere."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **changes}


def shardfeed(*args: str | os.PathLike[str], **env: str) -> subprocess.CompletedProcess[str]:
    """Runs ``shardfeed`` in a process, to its end; ``stderr`` is without lines of progress."""
    ended = subprocess.run(
        command(*args), capture_output=True, text=True, env=environment(**env), timeout=120, check=False
    )
    ended.stderr = said(ended.stderr)
    return ended


def said(text: str) -> str:
    """A log without the lines of progress that a slow machine adds every ten seconds."""
    return _PROGRESS.sub("", text)
