"""Runs ``shardfeed`` as its users do, in processes that can be killed (``builder.py``)."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tests.kit.builder import ADDRESS, Ended, Request, ask

ROOT = Path(__file__).parents[2]
DIRECT = ("--runner", "DirectRunner")
DRIVERS = {"local": (), "DirectRunner": DIRECT}

# Libraries of Beam's start threads when they are loaded; a process that forks must have none.
_NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}

_T = TypeVar("_T")
_R = TypeVar("_R")


@functools.cache
def start_builder() -> None:
    """Starts this test run's builder; it ends with the run."""
    os.environ[ADDRESS] = _started("preload_build")


@functools.cache
def _started(preload: str, **variables: str) -> str:
    """The address of a builder that has called ``preload``."""
    folder = tempfile.mkdtemp(prefix="builder-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = os.path.join(folder, "socket")
    env = {**os.environ, **_NO_THREADS, "PYTHONPATH": str(ROOT), ADDRESS: address, **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", f"from tests.kit import builder; builder.main(builder.{preload}, {address!r})"],
        cwd=ROOT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(process.communicate)  # closes its standard input, which ends it
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the builder did not start; its traceback is above"
    return address


def run_program(program: Path, *arguments: object, backend: str, folder: Path = ROOT, **variables: str) -> Ended:
    """A program that trains, run to its end in ``folder`` with Keras on ``backend``."""
    address = _started("preload_frameworks", KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="3")
    argv = tuple(map(str, arguments))
    return ask(Request(argv, env=variables, patience=300, program=str(program), folder=str(folder)), address)


def build_args(photos: Path | Iterable[Path], out: Path, *flags: str) -> tuple[str, ...]:
    """``build`` of tiny images; a flag given again in ``flags`` wins."""
    roots = [photos] if isinstance(photos, Path) else list(photos)
    inputs = [arg for root in roots for arg in ("--input", str(root))]
    return ("build", *inputs, "--output", str(out), "--image_size", "16", "--threads", "2", *flags)


def run(
    *argv: str,
    hooks: Iterable[Callable[[], None]] = (),
    env: Mapping[str, str] | None = None,
) -> Ended:
    """One command, run to its end."""
    start_builder()
    return ask(Request(argv, tuple(hooks), env or {}))


def build(
    photos: Path | Iterable[Path],
    out: Path,
    *flags: str,
    hooks: Iterable[Callable[[], None]] = (),
    env: Mapping[str, str] | None = None,
) -> Ended:
    """One ``shardfeed build``."""
    return run(*build_args(photos, out, *flags), hooks=hooks, env=env)


def built(
    photos: Path | Iterable[Path],
    out: Path,
    *flags: str,
    hooks: Iterable[Callable[[], None]] = (),
    env: Mapping[str, str] | None = None,
) -> Ended:
    """A build that has to succeed."""
    ended = build(photos, out, *flags, hooks=hooks, env=env)
    assert ended.code == 0, ended.err
    return ended


def each(function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """``function`` of every item, as many at a time as there are cores."""
    start_builder()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))
