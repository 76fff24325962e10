"""Ctrl-C and SIGTERM before a build has begun to run: while the command line and Beam are imported, arguments are checked and the
output is looked at, which may list the input for minutes.

Nothing is under way then that had to be wound up, so the process leaves from the handler. An exception could be swallowed by what
is being imported or asked. No module of ours is imported here, for the import
of any may be what is interrupted.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_INCOMPLETE = 4  # the code of IncompleteError


@contextlib.contextmanager
def leaving_at_once(command: str) -> Iterator[None]:
    """Ends this process with a line and exit 4 on either signal in the block, until ``StopSignals`` takes them.

    A signal that this process was started to ignore stays ignored. Helpers end with the process by themselves.
    """

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        with contextlib.suppress(OSError):
            os.write(2, f"shardfeed: stopped before {command} was complete; rerun the same command.\n".encode())
        os._exit(_INCOMPLETE)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
