"""What a process of the pool runs: it makes the parts that it gets, until the builder has gone."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from multiprocessing.connection import Connection

from shardfeed.transforms.encode.part_encoder import Made, open_encoder


def serve(pipe: Connection) -> None:
    """Makes the parts that ``pipe`` asks for, until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the builder decides what Ctrl-C means
    threading.Thread(target=_end_with, args=(pipe.recv(),), daemon=True).start()
    answering = threading.Lock()

    def answer(split: str, part: int, made: Made) -> None:
        with answering:
            pipe.send(((split, part), None if made.exception() else made.result()))

    try:
        with open_encoder(*pipe.recv()) as encoder:
            while True:
                split, part, packed = pipe.recv()
                encoder.begin(split, part, packed).add_done_callback(functools.partial(answer, split, part))
    except EOFError:
        os._exit(0)  # not through the interpreter's end, which waits for the threads' last images


def _end_with(builder: int) -> None:
    """Ends this process when its builder has gone.

    The closed pipe does not always show that: a process that the builder forked may hold a copy.
    """
    while os.getppid() == builder:
        time.sleep(1.0)
    os._exit(0)
