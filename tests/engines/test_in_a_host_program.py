"""A program calls the library: the engine ends with the build, and all else is as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import builds, disk
from tests.kit.commands import environment

# Builds with one process of its own beside it, and does something at the first image.
HOST = """
import atexit, logging, os, signal, subprocess, sys, threading, time
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.run_build import run_build
from shardfeed.processes import descendants

from shardfeed.transforms.encode import slices
from shardfeed.transforms.pool import pool
pool.MOST_PROCESSES = 0  # encode in this process

photos, out, does, *engine = sys.argv[1:]
waiting = [sys.executable, "-c", "import signal; signal.pause()", "prism", "gs://sunbeam-photos/"]
own = subprocess.Popen(waiting, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
atexit.register(own.kill)
process = slices.process_image

def first(*args, **kwargs):
    slices.process_image = process
    print("handler kept:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    print("engines:", len(descendants(os.getpid())) - 1)
    if does == "stop":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # the step ends after the build, which nobody must hear of
    return process(*args, **kwargs)

def state():
    from apache_beam.runners.worker import sdk_worker
    loggers = [logging.getLogger(name) for name in (None, "apache_beam", "grpc", "apache_beam.runners.common")]
    mine = [(each.level, each.propagate, [*each.handlers], [*each.filters]) for each in loggers]
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)]
    return [mine, handlers, threading.excepthook, "print" in vars(sdk_worker), dict(os.environ)]

slices.process_image = first
before = state()
engine = Engine("PrismRunner", ("--prism_location", engine[0])) if engine else Engine("DirectRunner")
try:
    run_build(BuildConfig(inputs=(photos,), output=out, threads=1, engine=engine))
    print("built")
except KeyboardInterrupt:
    print("KeyboardInterrupt")
print("as before:", state() == before, signal.set_wakeup_fd(-1))
print("left:", "own" if descendants(os.getpid()) == [own.pid] and own.poll() is None else descendants(os.getpid()))
if engine.in_process:
    for thread in threading.enumerate()[1:]:
        thread.join(5)
    print("threads:", threading.active_count())
"""


def host(*args: object) -> tuple[int, list[str], str]:
    """Exit code, lines and errors of the program."""
    program = [sys.executable, "-c", HOST, *map(str, args)]
    ended = subprocess.run(program, capture_output=True, text=True, env=environment(), timeout=120, check=False)
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


@pytest.mark.parametrize(("does", "how"), [("build", "built"), ("stop", "KeyboardInterrupt")])
def test_prism_is_ended_with_the_build_and_no_other_process(
    does: str, how: str, prism_program: Path, photos: Path, tmp_path: Path
) -> None:
    assert host(photos, tmp_path / "out", does, prism_program) == (
        0, ["handler kept: True", "engines: 1", how, "as before: True -1", "left: own"], ""
    )  # fmt: skip


def test_ctrl_c_in_a_step_is_a_keyboard_interrupt_and_the_same_build_completes(photos: Path, tmp_path: Path) -> None:
    assert host(photos, tmp_path / "out", "stop") == (
        0, ["handler kept: True", "engines: 0", "KeyboardInterrupt", "as before: True -1", "left: own", "threads: 1"], ""
    )  # fmt: skip
    args = ("--image_size", "224")
    builds.built(photos, tmp_path / "out", *args)
    builds.built(photos, tmp_path / "whole", *args)
    assert disk.digests(tmp_path / "out") == disk.digests(tmp_path / "whole")
