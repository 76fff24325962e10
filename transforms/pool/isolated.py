"""Images made one by one, each in a process of its own that may crash, hang or eat memory.

This is slow (about 5 ms per image on top), so only parts that a process has died of are made so.
An image is rejected by how its own process ended, with nothing else in it. So whatever ended the
first process, no good image is lost. A crash, or a kill from outside, must happen twice.
"""

from __future__ import annotations

import pickle
import signal
import threading

from shardfeed.errors import IncompleteError, TooManyRejectsError, clip
from shardfeed.transforms.images.limits import Limits
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.pixels.perceptual_hash import Samples
from shardfeed.transforms.images.process import EncodedImage, Reserve
from shardfeed.transforms.images.rejects import Reason, RejectError
from shardfeed.transforms.pool.expendable import image_bytes
from shardfeed.transforms.pool.program import Program

_BOOT = "from shardfeed.transforms.pool.disposable import serve; serve(pipe)"
_TRIES = 3  # to have an answer from the program, which nothing ends but somebody outside


class Isolated:
    """A codec for ``SliceEncoder``: one image at a time, in a process that is thrown away.

    ``seconds``: of CPU time per image. ``most_late``: images that may take longer before the build
    is given up.
    """

    def __init__(self, seconds: int, most_late: int, limits: Limits) -> None:
        self._seconds, self._most_late, self._late = seconds, most_late, 0
        self._bytes = image_bytes(limits)
        self._program: Program | None = None
        self._lock, self._closed = threading.Lock(), False

    def process_image(
        self, data: bytes, options: ImageOptions, *, with_stats: bool, reserve: Reserve, samples: Samples | None
    ) -> EncodedImage:
        """Makes an image.

        Raises:
            RejectError: it cannot be used; CRASHED, TIMEOUT and MEMORY are among the reasons.
            TooManyRejectsError: too many images took too long.
            IncompleteError: no process can be started, or somebody ends each.
        """
        with self._lock:
            task = data, options, with_stats, samples is not None, self._seconds
            status, words = self._ask(task)
            if status not in (0, -signal.SIGXCPU):
                status, words = self._ask(task)  # chance, or a kill from outside, does not come twice
            if status == 0:
                image, taken = _made(words, self._bytes)
                if samples is not None:
                    samples.take_from(taken)
                return image
            if status == -signal.SIGXCPU:
                self._count_late()
            raise _rejected(status, self._seconds)

    def take_samples(self, data: bytes, options: ImageOptions, samples: Samples, reserve: Reserve) -> None:
        """Takes the samples of an image that is already stored; raises as ``process_image``."""
        self.process_image(data, options, with_stats=False, reserve=reserve, samples=samples)

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._closed = True
        if (program := self._program) is not None:
            program.close()

    def _ask(self, task: tuple[object, ...]) -> tuple[int, bytes]:
        """How the image's process ended, and its words."""
        said = ""
        for _ in range(_TRIES):
            if self._closed:
                raise IncompleteError("stopped before the dataset was complete; rerun the same command to carry on.")
            try:
                self._program = self._program or Program(_BOOT)
                self._program.send(task)
                answer: tuple[int, bytes] = self._program.recv()
                return answer
            except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
                said = str(error)
                if self._program is not None:
                    self._program.close()
                    said, self._program = self._program.last_words() or said, None
        raise IncompleteError(
            f"the process that makes images one by one cannot be started, or is ended from outside ({clip(said, 300)}). "
            "Rerun the same command to carry on."
        )

    def _count_late(self) -> None:
        self._late += 1
        if self._late > self._most_late:
            raise TooManyRejectsError(
                f"{self._late:,} images took longer than --image_timeout {self._seconds} each; --max_rejected allows "
                f"{self._most_late:,}. Nothing was published. Find out why, or rerun with a higher --max_rejected: finished "
                "parts are kept."
            )


def _made(words: bytes, most: int) -> tuple[EncodedImage, Samples]:
    what, answer = pickle.loads(words)
    if what == "rejected":
        raise RejectError(Reason(answer[0]), answer[1])
    if what == "memory":
        raise RejectError(Reason.MEMORY, f"the decoder asks for more than {most / (1 << 30):.1f} GiB")
    if what == "bug":
        raise RuntimeError(f"an image's process failed:\n{answer}")
    made: tuple[EncodedImage, Samples] = answer
    return made


def _rejected(status: int, seconds: int) -> RejectError:
    """Why an image is rejected whose process ended so."""
    if status == -signal.SIGXCPU:
        return RejectError(Reason.TIMEOUT, f"the decoder takes longer than {seconds} s (--image_timeout)")
    if status == -signal.SIGKILL:  # by the system, which had no memory left
        return RejectError(Reason.MEMORY, "the system ended the decoder twice; it does that if memory runs out")
    by = f"ends its process with code {status}" if status > 0 else f"crashes with {signal.Signals(-status).name}"
    return RejectError(Reason.CRASHED, f"the decoder {by}")
