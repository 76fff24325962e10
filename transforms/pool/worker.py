"""What a process of the pool runs: it makes the parts that it gets, until the builder has gone."""

from __future__ import annotations

import functools
import gc
import logging
import mmap
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from shardfeed.no_gc import no_gc
from shardfeed.storage import retry
from shardfeed.transforms.elements import PartResult
from shardfeed.transforms.encode.in_flight import Made
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.pool.expendable import OTHER_BYTES, be_expendable, image_bytes
from shardfeed.transforms.pool.watch import Watch

READY = "ready"  # what ends the process from now on is a part's fault


@dataclass(frozen=True)
class LogLine:
    """A line for the builder's log."""

    level: int
    text: str


@dataclass(frozen=True)
class Versions:
    """``codec_versions`` of the image options that were sent."""

    of: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """What became of a part: ``made``, or the pickled ``error`` and its traceback.

    ``retries``: requests that were tried again since the last answer.
    """

    split: str
    part: int
    made: tuple[PartResult, int] | None
    error: bytes
    traceback: str
    retries: int


def serve(pipe: Connection, watched: int) -> None:
    """Makes the parts that ``pipe`` asks for, until its other end is closed.

    ``watched``: descriptor of the file that shows the builder which images are in hand.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the builder decides what Ctrl-C means
    threading.Thread(target=_end_with, args=(pipe.recv(),), daemon=True).start()
    sending = threading.Lock()

    def send(message: object) -> None:
        with sending:
            pipe.send(message)

    def answer(split: str, part: int, made: Made) -> None:
        error = made.exception()
        made_of_it = made.result() if error is None else None
        pickled, text = (b"", "") if error is None else _packed(error)
        send(Answer(split, part, made_of_it, pickled, text, retry.take_retries()))

    logger = logging.getLogger("shardfeed")
    logger.handlers, logger.propagate = [_Saying(send)], False
    try:
        with no_gc():  # the codecs are loaded here: no builder loads them
            from shardfeed.transforms.encode.part_encoder import open_encoder
            from shardfeed.transforms.images import process
            from shardfeed.transforms.images.versions import codec_versions

            gc.freeze()  # in a fork: else collecting copies each page of the builder

        asked = pipe.recv()
        if isinstance(asked, ImageOptions):
            send(Versions(codec_versions(asked)))
            asked = pipe.recv()
        plan, settings = asked
        be_expendable(image_bytes(settings.options.image.limits) + OTHER_BYTES)
        with open_encoder(plan, settings, Watch(process, mmap.mmap(watched, 0))) as encoder:
            send(READY)
            while True:
                split, part, packed = pipe.recv()
                encoder.begin(split, part, packed).add_done_callback(functools.partial(answer, split, part))
    except EOFError:
        os._exit(0)  # not through the interpreter's end, which waits for the threads' last images


class _Saying(logging.Handler):
    def __init__(self, send: Callable[[object], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        self._send(LogLine(record.levelno, record.getMessage()))


def _packed(error: BaseException) -> tuple[bytes, str]:
    """An error that can be raised in another process, and its traceback."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # a class of anybody: it need not be made for that
        data = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data, text


def _end_with(builder: int) -> None:
    """Ends this process when its builder has gone.

    The closed pipe does not always show that: a process that the builder forked may hold a copy.
    """
    while os.getppid() == builder:
        time.sleep(1.0)
    os._exit(0)
