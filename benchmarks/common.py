"""What the benchmarks share: copies of the photos, whole commands timed from outside, and the line
that says where.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from shardfeed.processes import descendants  # noqa: E402


@dataclass(frozen=True)
class Ran:
    """A finished command: wall seconds, CPU seconds, peak memory in MB, exit code and output.

    The peak is the sum of the resident memory of the command's processes, looked at ten times a
    second (pages that they share count for each), and no less than its largest process ever had.
    """

    seconds: float
    cpu: float
    peak_mb: float
    code: int
    output: str


def _environment() -> dict[str, str]:
    """Compiled modules may be kept, as on a user's machine."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def command(*args: str, check: bool = True) -> Ran:
    """Runs ``python args…`` to its end and measures it from outside."""
    with tempfile.TemporaryFile() as out:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *args], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=_environment()
        )
        with Watched(lambda: _resident_mb(process.pid)) as watched:
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if check and process.returncode:
        raise SystemExit(f"{' '.join(args)} ended with {process.returncode}:\n{text}")
    peak = max(usage.ru_maxrss / 1024, watched.peak_mb)
    return Ran(seconds, usage.ru_utime + usage.ru_stime, peak, process.returncode, text)


class Watched:
    """The most megabytes that ``look`` saw, ten times a second, for the length of a with block."""

    def __init__(self, look: Callable[[], float]) -> None:
        self.peak_mb = 0.0
        self._memory_mb, self._done = look, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            self.peak_mb = max(self.peak_mb, self._memory_mb())


def _resident_mb(pid: int) -> float:
    """Of a process and of those below it, together."""
    return sum(map(_resident_pages, [pid, *descendants(pid)])) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _resident_pages(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1])
    except OSError:  # it has ended
        return 0


def build(photos: Path, output: Path, *more: str, check: bool = True) -> Ran:
    """One whole ``shardfeed build`` into an empty folder, start-up included."""
    shutil.rmtree(output, ignore_errors=True)
    args = ["-m", "shardfeed", "build", "--input", str(photos), "--output", str(output)]
    return command(*args, "--resize", "squash", "--quality", "90", "--num_shards", "16", "--json", *more, check=check)


def link_copies(photos: Path, into: Path, copies: int) -> Path:
    """The photos hard-linked (copied where links cannot be made) ``copies`` times into one tree of
    the same classes.
    """
    for source in sorted(photos.rglob("*.jpg")):
        folder = into / source.parent.relative_to(photos)
        folder.mkdir(parents=True, exist_ok=True)
        for copy in range(copies):
            target = folder / f"{source.stem}-{copy}.jpg"
            try:
                os.link(source, target)
            except OSError:
                shutil.copy2(source, target)
    return into


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def photos_parser(what: str | None) -> argparse.ArgumentParser:
    """A parser with the flags every benchmark takes."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--photos", type=Path, required=True, help="folder of JPEG photos, one folder a class")
    parser.add_argument("--work", type=Path, help="where to write (default: a new temporary folder)")
    return parser


def where() -> str:
    """Machine and date, for results.md."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{datetime.date.today()}, {os.cpu_count()} x {model or platform.processor()}, Python {platform.python_version()}"
