"""What the benchmarks share: copies of the photos, whole commands timed from outside, and the line that says where."""

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
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Ran:
    """A finished command: wall seconds, CPU seconds, peak memory in MB (its largest process), exit code and output."""

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
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if check and process.returncode:
        raise SystemExit(f"{' '.join(args)} ended with {process.returncode}:\n{text}")
    return Ran(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, text)


def build(photos: Path, output: Path, *more: str, check: bool = True) -> Ran:
    """One whole ``shardfeed build`` into an empty folder, start-up included."""
    shutil.rmtree(output, ignore_errors=True)
    args = ["-m", "pipeline", "build", "--input", str(photos), "--output", str(output)]
    return command(*args, "--resize", "squash", "--quality", "90", "--num_shards", "16", "--json", *more, check=check)


def link_copies(photos: Path, into: Path, copies: int) -> Path:
    """The photos hard-linked (copied where links cannot be made) ``copies`` times into one tree of the same classes."""
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
