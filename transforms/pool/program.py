"""A child process with a pipe: a program of its own, or a fork of this process.

A fork starts at once. It is used where all threads of this process are known to be ours and asleep
or harmless: in the command line, without a bucket's client. A program that calls the library may
have any threads, so there the child is a program.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import site
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

# Isolated (-I): no file in the current folder, often the input, may be imported in place of a
# module. -I also skips the user's own site-packages, where this package may be installed. The
# process reads the .pth files there if this process has read them.
_BOOT = (
    "import site, sys; from multiprocessing.connection import Connection; pipe = Connection(int(sys.argv[1])); "
    "path, user_site = pipe.recv(); user_site and site.addsitedir(user_site); sys.path[:] = path; "
)
_LAST_WORDS = 20_000  # bytes of a process's standard error that are searched for a message


class Child:
    """A process, and a pipe to it. ``start(theirs)`` starts it with its end of the pipe.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        self._sending, self._waiting = threading.Lock(), threading.Lock()
        self._code: int | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._pipe, theirs = Pipe()
        with theirs:
            self.pid = self._start(theirs)

    def _start(self, theirs: Connection) -> int:
        raise NotImplementedError

    def send(self, message: Any) -> None:
        """Sends a message. From any thread; waits until the process has taken most of it.

        Raises:
            OSError: the process has ended.
        """
        with self._sending:
            self._pipe.send(message)

    def recv(self) -> Any:
        """The next message of the process.

        Raises:
            EOFError, OSError, ValueError, pickle.UnpicklingError: the process has ended.
        """
        return self._pipe.recv()

    def kill(self) -> None:
        """Ends the process, whatever it is doing."""
        with self._waiting:
            if self._code is None:
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Waits for its end; the exit code, or minus the number of the signal that ended it."""
        with contextlib.suppress(ChildProcessError):  # another thread has waited
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._waiting:
            if self._code is None:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self._code

    def close(self) -> None:
        """Ends the process and waits for that. From any thread, and more than once."""
        self.kill()
        self.wait()
        with self._waiting:
            self._pipe.close()  # nothing, if it is closed

    def last_words(self) -> str:
        """What the process said of its end on its standard error; may be empty."""
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _LAST_WORDS))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        crashed = (line for line in lines if line.startswith("Fatal Python error"))  # stacks follow it
        return next(crashed, lines[-1] if lines else "")


class Program(Child):
    """A Python program that runs the statements of ``boot``, which find ``pipe``.

    ``shared``: a descriptor that is open there too; its number is ``sys.argv[2]``.
    """

    def __init__(self, boot: str, shared: int | None = None) -> None:
        if not sys.executable:  # a program that embeds Python may have no interpreter to start
            raise FileNotFoundError("no Python interpreter is known here")
        self._boot, self._shared = boot, [] if shared is None else [shared]
        super().__init__()
        with contextlib.suppress(OSError):  # it has ended already; whoever reads from it sees that
            self.send((list(sys.path), site.getusersitepackages() if site.ENABLE_USER_SITE else ""))

    def _start(self, theirs: Connection) -> int:
        fds = [theirs.fileno(), *self._shared]
        options = ["-I", "-X", f"utf8={sys.flags.utf8_mode}", "-X", "faulthandler"]
        self._process = subprocess.Popen(
            [sys.executable, *options, "-c", _BOOT + self._boot, *map(str, fds)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            pass_fds=fds,
            # NumPy's BLAS needs no threads for such small products; they would spin for 50 ms at the start.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait()


class Fork(Child):
    """A fork of this process that calls ``serve`` with its end of the pipe, then ends."""

    def __init__(self, serve: Callable[[Connection], object]) -> None:
        self._serve = serve
        super().__init__()

    def _start(self, theirs: Connection) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on: of threads; see above
            pid = os.fork()
        if pid:
            return pid
        try:  # nothing may return from here: the caller's frames are the builder's
            self._pipe.close()
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor, standard in ((nothing, 0), (nothing, 1), (self._stderr.fileno(), 2)):
                os.dup2(descriptor, standard)
            faulthandler.enable(2)
            self._serve(theirs)
        except BaseException:
            os.write(2, traceback.format_exc().encode(errors="backslashreplace"))
        os._exit(1)
