"""Runs ``shardfeed`` as its users do, in processes that can be killed (``builder.py``)."""

from __future__ import annotations

import atexit
import fcntl
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

_FOLDER = "SHARDFEED_TEST_BUILDERS"  # environment variable: where the builders of a test run are
_ALIVE = "alive"  # a pipe there, which the builders read to its end
_STARTED: list[subprocess.Popen[bytes]] = []  # which nobody waits for

_T = TypeVar("_T")
_R = TypeVar("_R")


def share_builders() -> None:
    """The builders of this process and its children are the same, and end with this process."""
    os.environ[_FOLDER] = folder = tempfile.mkdtemp(prefix="builders-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.mkfifo(os.path.join(folder, _ALIVE))
    os.open(os.path.join(folder, _ALIVE), os.O_RDWR)  # open until this process ends, however it does


@functools.cache
def start_builder() -> None:
    """Starts this test run's builder, if no other process of the run has."""
    os.environ[ADDRESS] = _started("preload_build")


@functools.cache
def _started(preload: str, **variables: str) -> str:
    """The address of a builder that has called ``preload``."""
    folder = os.environ[_FOLDER]
    address = os.path.join(folder, "-".join([preload, *variables.values()]))
    with open(f"{address}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not os.path.exists(address):
            _start(preload, folder, address, variables)
    return address


def _start(preload: str, folder: str, address: str, variables: Mapping[str, str]) -> None:
    # JAX compiles a function once for all programs, for instance those that go on with a training.
    compiled = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    env = {**os.environ, **_NO_THREADS, **compiled, "PYTHONPATH": str(ROOT), ADDRESS: address, **variables}
    with open(os.path.join(folder, _ALIVE)) as alive:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from tests.kit import builder; builder.main(builder.{preload}, {address!r})"],
            cwd=ROOT, env=env, stdin=alive, stdout=subprocess.PIPE,
        )  # fmt: skip
    _STARTED.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the builder did not start; its traceback is above"


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
