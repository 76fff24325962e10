"""An engine that the launcher starts ends with the launcher, whatever the program is called."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.kit import builds
from tests.kit.commands import environment
from tests.pipeline import gated


def running(program: Path) -> list[int]:
    """Processes of a program, wherever they are."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if (process / "exe").readlink() == program:
                found.append(int(process.name))
    return found


def left_of(program: Path) -> list[int]:
    """Its processes that run after all; one that was killed may take a moment to be gone."""
    for _ in range(500):
        if not running(program):
            break
        time.sleep(0.01)
    return running(program)


def test_an_engine_by_another_name_does_not_outlive_its_launcher(
    prism_program: Path, photos: Path, tmp_path: Path
) -> None:
    program = Path(shutil.copy(prism_program, tmp_path / "engine-p"))
    assert not any(word in str(program) for word in ("prism", "beam"))
    args = builds.build_args(photos, tmp_path / "out", "--runner", "PrismRunner", "--prism_location", str(program))
    with subprocess.Popen(
        [sys.executable, gated.__file__, *args],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as launcher:  # fmt: skip
        try:
            assert launcher.stdout is not None
            assert launcher.stdout.readline() == "at the gate\n"
            (engine,) = running(program)
            os.kill(engine, signal.SIGSTOP)  # else it ends by itself, as soon as it logs to nobody
            launcher.send_signal(signal.SIGTERM)
            assert launcher.wait(60) == 4
            assert left_of(program) == []
        finally:
            for pid in (*running(program), launcher.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
