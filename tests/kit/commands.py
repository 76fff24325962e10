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
    """``root`` with as many images a class folder as given."""
    for name, count in counts.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (root / name / f"{i:03}.jpg").write_bytes(photo(i))
    return root


def command(*args: str | os.PathLike[str]) -> list[str]:
    """The command line of ``shardfeed`` in a process of its own."""
    return [sys.executable, "-m", "shardfeed", *map(os.fspath, args)]


# Becomes the command that it is given. Permissions bind root too, once CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH are gone
# (linux/prctl.h, linux/capability.h); nobody else has them to begin with. It is a program of its own, not `preexec_fn`: a fork
# of the tests' process has gRPC's threads, dead, and gRPC aborts it now and then.
_OBEY_PERMISSIONS = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
if os.geteuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.argv[1], sys.argv[1:])
"""


def obeying_permissions(*command: str) -> list[str]:
    """``command`` as a process that permissions bind, even if the tests run as root."""
    return [sys.executable, "-ISc", _OBEY_PERMISSIONS, *command]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment for a child that is started anywhere."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **changes}


def shardfeed(*args: str | os.PathLike[str], **env: str) -> subprocess.CompletedProcess[str]:
    """Runs ``shardfeed`` in a process of its own, to its end; ``stderr`` is without lines of progress."""
    ended = subprocess.run(
        command(*args), capture_output=True, text=True, env=environment(**env), timeout=120, check=False
    )
    ended.stderr = said(ended.stderr)
    return ended


def said(text: str) -> str:
    """A log without the lines of progress that a slow machine adds every ten seconds."""
    return _PROGRESS.sub("", text)
