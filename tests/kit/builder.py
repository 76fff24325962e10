"""A process that has imported Beam once, and forks a child for every command it is asked to run.

A build under test is a real process, so that it can be killed, limited in memory and given other
globals without touching the tests' own. But importing Beam costs 1.5 s, and there are hundreds
of builds. Forking is safe here and only here: this process has one thread and never opens a
connection of Beam's. For programs that train, another such process has imported TensorFlow, JAX and
Keras, which costs 5 s, and has started none of them.

The socket carries pickles of our own: a ``Request``, answered by an ``Ended``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
ADDRESS = "SHARDFEED_TEST_BUILDER"  # environment variable: where the builder listens


@dataclass(frozen=True)
class Request:
    """A command line of ``shardfeed``, and what its process does to itself before (``hooks.py``).

    ``program``: a file of Python that gets the arguments instead; ``folder``: where it runs;
    ``patience``: seconds after which it is asked where it hangs, and killed.
    """

    argv: tuple[str, ...]
    hooks: tuple[Callable[[], None], ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    patience: float = 200.0
    program: str = ""
    folder: str = ""


@dataclass(frozen=True)
class Ended:
    """How the process ended: exit code (minus the number of a signal that ended it), and output.

    ``hung``: whether it was killed because it did not end; see ``ask``.
    """

    code: int
    out: str
    err: str
    hung: bool = False


def ask(request: Request, address: str = "") -> Ended:
    """Has the builder run a command, and waits for its end. From any process or thread.

    Raises:
        AssertionError: it did not end; with the stacks of its threads.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(None)  # a test may have signed in at Google, whereupon Beam gives new sockets 60 s
        connection.connect(address or os.environ[ADDRESS])
        with connection.makefile("wb") as sending:
            pickle.dump(request, sending)
        with connection.makefile("rb") as receiving:
            ended: Ended = pickle.load(receiving)
    assert not ended.hung, f"{request.argv} did not end within {request.patience:g} s:\n{ended.err}"
    return ended


def serve(listener: socket.socket) -> None:
    """Runs what comes, side by side, until standard input closes because the tests are over."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
        assert ready
        connection = listener.accept()[0]
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _supervise(connection)
            os._exit(0)
        connection.close()


def _supervise(connection: socket.socket) -> None:
    with connection.makefile("rb") as receiving:
        request: Request = pickle.load(receiving)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(request, out.fileno(), err.fileno())
        code, hung = _wait(pid, request)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # workers of a launcher that was killed
        out.seek(0)
        err.seek(0)
        ended = Ended(code, out.read().decode(), err.read().decode(), hung)
    with connection.makefile("wb") as sending, contextlib.suppress(BrokenPipeError):
        pickle.dump(ended, sending)


def _wait(pid: int, request: Request) -> tuple[int, bool]:
    """Exit code, and whether the process hung."""
    hung = not select.select([os.pidfd_open(pid)], [], [], request.patience)[0]
    if hung:
        os.kill(pid, signal.SIGUSR1)  # its threads' stacks
        time.sleep(0.5)
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), hung


def _become(request: Request, out: int, err: int) -> None:
    code = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a build that waits for another ends with the tests
        os.dup2(out, 1)
        os.dup2(err, 2)
        faulthandler.register(signal.SIGUSR1, err)
        os.environ.update(request.env)
        tempfile.tempdir = None  # asked again of the environment
        os.chdir(request.folder or ".")
        code = _run_program(request) if request.program else _run_command(request)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_command(request: Request) -> int:
    from shardfeed import signals
    from shardfeed.cli.main import main

    signals.install("build")  # as the program does
    for hook in request.hooks:
        hook()
    return main(list(request.argv))


def _run_program(request: Request) -> int:
    sys.argv = [request.program, *request.argv]
    sys.path[0] = os.path.dirname(request.program)
    runpy.run_path(request.program, run_name="__main__")
    atexit._run_exitfuncs()  # processes of JAX leave together
    return 0


def preload_frameworks() -> None:
    """Imports what a training imports; ``KERAS_BACKEND`` says which Keras it gets."""
    import keras  # noqa: F401
    import tensorflow as tf
    from jax._src import xla_bridge

    import shardfeed

    _ = shardfeed.load, tf.keras  # which are imported when they are asked for
    assert not xla_bridge.backends_are_initialized(), "a child could not choose its devices"


def preload_build() -> None:
    """Imports everything a build imports."""
    import numpy.ma  # noqa: F401 (np.unique loads it)
    from apache_beam.runners.portability import fn_api_runner  # noqa: F401
    from apache_beam.typehints import intrinsic_one_ops  # noqa: F401
    from PIL import Image

    import tests.kit.steps  # noqa: F401
    from shardfeed import signals  # noqa: F401
    from shardfeed.pipeline import graph, run_build  # noqa: F401
    from shardfeed.pipeline.cli import commands, config_from_flags  # noqa: F401
    from shardfeed.pipeline.report import progress
    from shardfeed.transforms.images.versions import codec_versions
    from shardfeed.transforms.pool import pool
    from tests.kit.graphs import look_once

    Image.init()
    codec_versions()  # loads the decoders
    pool.MOST_PROCESSES = 0  # what hooks do to encoding, they do to the command itself (see ``hooks.processes``)
    progress._LOG_SECONDS = 3600  # what is said must not depend on how busy this machine is
    look_once(setattr)


def main(preload: Callable[[], None], address: str) -> None:
    preload()
    gc.collect()
    gc.freeze()  # else every child's collector copies every page
    assert len(os.listdir("/proc/self/task")) == 1, "a library has started a thread"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        serve(listener)
