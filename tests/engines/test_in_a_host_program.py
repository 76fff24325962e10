"""A program calls the library: the engine ends with the build, and all else is as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kit import builds, disk
from tests.kit.commands import environment

# Builds three times with one process of its own beside it; is stopped at the first image, twice.
HOST = """
import atexit, functools, logging, os, signal, subprocess, sys, threading, time
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.run_build import run_build
from shardfeed.processes import descendants

from shardfeed.transforms.images import process
from shardfeed.transforms.pool import pool
pool.MOST_PROCESSES = 0  # encode in this process

photos, out, prism = sys.argv[1:]
waiting = [sys.executable, "-c", "import signal; signal.pause()", "prism", "gs://sunbeam-photos/"]
own = subprocess.Popen(waiting, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
atexit.register(own.kill)
good = process.process_image

def first(does, *args, **kwargs):
    process.process_image = good
    print("handler kept:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    print("engines:", len(descendants(os.getpid())) - 1)
    if does == "stop":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # the step ends after the build, which nobody must hear of
    return good(*args, **kwargs)

def state():
    from apache_beam.runners.worker import sdk_worker
    loggers = [logging.getLogger(name) for name in (None, "apache_beam", "grpc", "apache_beam.runners.common")]
    mine = [(each.level, each.propagate, [*each.handlers], [*each.filters]) for each in loggers]
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)]
    return [mine, handlers, threading.excepthook, "print" in vars(sdk_worker), dict(os.environ)]

def run(name, does, engine):
    process.process_image = functools.partial(first, does)
    before = state()
    try:
        run_build(BuildConfig(inputs=(photos,), output=os.path.join(out, name), threads=1, engine=engine))
        print("built")
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
    print("as before:", state() == before, signal.set_wakeup_fd(-1))
    print("left:", "own" if descendants(os.getpid()) == [own.pid] and own.poll() is None else descendants(os.getpid()))

run("direct", "stop", Engine("DirectRunner"))
for thread in threading.enumerate()[1:]:
    thread.join(60)
print("threads:", threading.active_count())
for does in ("stop", "build"):
    run("prism", does, Engine("PrismRunner", ("--prism_location", prism)))
"""


def test_an_engine_ends_with_its_build_and_no_other_process_and_a_stopped_build_can_be_completed(
    prism_program: Path, photos: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-c", HOST, str(photos), str(tmp_path), str(prism_program)]
    ended = subprocess.run(program, capture_output=True, text=True, env=environment(), timeout=120, check=False)
    after = ["as before: True -1", "left: own"]
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        *("handler kept: True", "engines: 0", "KeyboardInterrupt", *after, "threads: 1"),
        *("handler kept: True", "engines: 1", "KeyboardInterrupt", *after),
        *("handler kept: True", "engines: 1", "built", *after),
    ]
    for out in ("direct", "whole"):
        builds.built(photos, tmp_path / out, "--image_size", "224")
    digests = [disk.digests(tmp_path / out) for out in ("direct", "prism", "whole")]
    assert digests == [digests[-1]] * 3
