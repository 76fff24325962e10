"""What the program of ``isolated.py`` runs: a fork of it makes each image, and may be lost.

The program itself has one thread and never runs a codec. It starts a fork with the image, waits for
its end, and answers with how it ended.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import tempfile
import traceback
from multiprocessing.connection import Connection

from shardfeed.transforms.images import process
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.pixels.perceptual_hash import Samples
from shardfeed.transforms.images.rejects import RejectError
from shardfeed.transforms.pool.expendable import be_expendable, image_bytes

# A codec that sleeps uses no CPU. On a busy machine an image gets a share of it.
CLOCK_PER_CPU = 3
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def serve(pipe: Connection) -> None:
    """Answers (status of the fork, its words) to each (image, options, stats, samples, seconds)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the builder decides what Ctrl-C means
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(_forked(pipe, *task))


def _forked(
    pipe: Connection, data: bytes, options: ImageOptions, with_stats: bool, sampled: bool, seconds: int
) -> tuple[int, bytes]:
    with tempfile.TemporaryFile(buffering=0) as answer:
        words = answer.fileno()
        child = os.fork()
        if child == 0:
            _make(words, data, options, with_stats, sampled, seconds)
        status = _ended(child, pipe, seconds * CLOCK_PER_CPU)
        size = os.fstat(words).st_size
        return status, os.pread(words, size, 0) if status == 0 else b""


def _make(words: int, data: bytes, options: ImageOptions, with_stats: bool, sampled: bool, seconds: int) -> None:
    """Makes the image, writes what became of it to ``words``, and ends this process."""
    answer: tuple[str, object]
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # end with the program
        be_expendable(image_bytes(options.limits), seconds)
        samples = Samples(1) if sampled else None
        image = process.process_image(data, options, with_stats=with_stats, samples=samples)
        answer = "made", (image, samples)
    except RejectError as error:
        answer = "rejected", (error.reason.value, error.detail)
    except MemoryError:
        answer = "memory", None
    except BaseException:
        answer = "bug", traceback.format_exc()
    with open(words, "wb", closefd=False) as file:
        pickle.dump(answer, file)
    os._exit(0)


def _ended(child: int, pipe: Connection, seconds: int) -> int:
    """How a child ended: its exit code, or minus the signal's number; SIGXCPU if time ran out.

    It also ends when the other end of ``pipe`` is closed.
    """
    watching = os.pidfd_open(child)
    try:
        late = watching not in select.select([watching, pipe.fileno()], [], [], seconds)[0]
    finally:
        os.close(watching)
    if late:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return -signal.SIGXCPU if late else status
