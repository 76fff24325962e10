"""Processes that make parts, so that this one runs no codec, and each has a lock of its own.

A process gets whole parts and answers with their results, nothing else. It never lists, plans or
claims. So killing it at any time costs only the parts that it has in hand. These are then made
here, and each image of them in a process of its own (``isolated.py``): whatever ended the process,
at most the image that did it is lost. A new process takes the place of the one that ended.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import mmap
import os
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.storage import retry
from shardfeed.transforms.elements import Plan
from shardfeed.transforms.encode.in_flight import Made
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.pool import worker
from shardfeed.transforms.pool.program import Child, Fork, Program
from shardfeed.transforms.pool.watch import longest, shared_file
from shardfeed.transforms.run.state import LOOK_SECONDS, Run

if TYPE_CHECKING:
    from shardfeed.transforms.encode.part_encoder import PartEncoder
    from shardfeed.transforms.images.options import ImageOptions
    from shardfeed.transforms.pool.isolated import Isolated

# Tests that look into encoding from within set 0: then parts are made in this process.
MOST_PROCESSES = 16  # about 60 MB each
_BOOT = "from shardfeed.transforms.pool.worker import serve; serve(pipe, int(sys.argv[2]))"
_CLIENTS = {"obstore", "google.cloud.storage"}
_LOG = logging.getLogger("shardfeed")

Part = tuple[str, int, tuple[bytes, ...]]
"""Split, number of the part, and batches of its packed references."""


class _LostError(Exception):
    """A process ended before it had made its part; ``at_work``: while it was at work."""

    def __init__(self, at_work: bool) -> None:
        self.at_work = at_work


class _Traceback(Exception):
    """The traceback of an error in another process, as its cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Pool:
    """Processes that make parts of a plan, from any thread. Close it to end them.

    ``fork``: this is our own program, so only clients of buckets may have threads that are not
    ours.
    """

    def __init__(self, *, fork: bool = False) -> None:
        self._fork, self._told = fork, False
        self._processes: list[_Process] = []
        self._opened: tuple[Plan, EncoderSettings] | None = None
        self._changing, self._closed = threading.RLock(), threading.Event()
        self._here: contextlib.ExitStack = contextlib.ExitStack()
        self._encoders: dict[bool, PartEncoder] = {}

    def grow(self, count: int) -> None:
        """Starts processes until there are ``count``, at most ``MOST_PROCESSES``."""
        try:
            while len(self._processes) < min(count, MOST_PROCESSES):
                self._add(fork=self._fork)
        except OSError as error:  # the system allows no further process, or the interpreter is gone
            self._tell_once(f"no further process could be started to encode ({clip(error, 300)}). The build goes on")

    def codec_versions(self, options: ImageOptions, run: Run) -> dict[str, str]:
        """``codec_versions`` of the images' module, asked of a process, once, before ``open``.

        So this process loads no codec, unless it has to make parts itself.

        Raises:
            UsageError: a codec cannot be loaded.
            IncompleteError: the run was stopped.
        """
        for process in self._alive()[:1]:
            asked = process.codec_versions(options)
            while not wait([asked], LOOK_SECONDS).done:
                run.check()
            if (found := asked.result()) is not None:
                return found
        try:
            from shardfeed.transforms.images.versions import codec_versions

            return codec_versions(options)
        except ImportError as error:
            raise UsageError(
                f"a decoder cannot be loaded: {clip(error, 300)}. Install what it needs, or install it again: pip install "
                "--force-reinstall pillow simplejpeg pi-heif cykooz-resizer"
            ) from None

    def open(self, plan: Plan, settings: EncoderSettings) -> None:
        """Gives the processes the plan and an equal share of the threads each."""
        with self._changing:
            count = max(len(self._processes), 1)
            self._opened = plan, replace(settings, processes=settings.processes * count)
            for number, process in enumerate(self._processes):
                more = number < settings.threads % count
                process.open(plan, replace(self._opened[1], threads=settings.threads // count + more))
        if self._processes:
            threading.Thread(target=self._look, name="pool-watch", daemon=True).start()

    @property
    def ahead(self) -> int:
        """Parts that shall be in flight beside the first."""
        alive = self._alive()
        return sum(process.ahead + 1 for process in alive) - 1 if alive else self._encoder(isolated=False).ahead

    def begin(self, split: str, part: int, packed: Sequence[bytes]) -> Made:
        """Begins a part, as ``PartEncoder`` does."""
        made: Made = Future()
        self._give((split, part, tuple(packed)), made)
        return made

    def close(self) -> None:
        """Ends the processes, whatever they are doing; drops the parts in flight."""
        self._closed.set()
        for process in self._processes:
            process.close()
        self._here.close()

    def _add(self, *, fork: bool, settings: EncoderSettings | None = None) -> None:
        process = _Process(fork and _CLIENTS.isdisjoint(sys.modules), self._on_end)
        self._processes.append(process)
        if self._opened is not None and settings is not None:
            process.open(self._opened[0], settings)

    def _alive(self) -> list[_Process]:
        with self._changing:
            return [process for process in self._processes if not process.ended]

    def _give(self, part: Part, made: Made) -> None:
        """Gives a part to the process that has the fewest; to this one if there is none."""
        alive = self._alive()
        maker = min(alive, key=lambda process: process.load) if alive else self._encoder(isolated=False)
        maker.begin(*part).add_done_callback(functools.partial(self._done, part, made))

    def _done(self, part: Part, made: Made, ended: Made) -> None:
        """What one maker made of a part, or where the part goes next."""
        error = _error_of(ended)
        try:
            if error is None:
                made.set_result(ended.result())
            elif self._closed.is_set() or not isinstance(error, (_LostError, MemoryError)):
                made.set_exception(error)
            elif isinstance(error, _LostError) and not error.at_work:
                self._give(part, made)
            else:
                isolated = self._encoder(isolated=True).begin(*part)
                isolated.add_done_callback(lambda ended: _pass_on(ended, made))
        except BaseException as problem:
            made.set_exception(problem)

    def _encoder(self, *, isolated: bool) -> PartEncoder:
        """This process's own encoder; ``isolated``: its codecs run in a process per image."""
        from shardfeed.transforms.encode.part_encoder import open_encoder

        with self._changing:
            if (encoder := self._encoders.get(isolated)) is not None:
                return encoder
            assert self._opened is not None
            plan, settings = self._opened
            codec: Isolated | None = None
            if isolated:
                from shardfeed.transforms.pool.isolated import Isolated

                # Of a bucket's images only the reading is side by side.
                threads = settings.threads if any(map(storage.is_remote, settings.sources)) else 1
                settings = replace(settings, threads=threads, encoders=1)
                most = plan.candidates if settings.max_rejected is None else settings.max_rejected(plan.candidates)
                codec = Isolated(settings.image_timeout, most, settings.options.image.limits)
            encoder = self._encoders[isolated] = self._here.enter_context(open_encoder(plan, settings, codec))
            if codec is not None:
                self._here.callback(codec.close)  # first: the threads wait for it
            return encoder

    def _look(self) -> None:
        """Ends processes in which an image is for too long; runs in a thread."""
        assert self._opened is not None
        seconds = self._opened[1].image_timeout
        while not self._closed.wait(LOOK_SECONDS):
            for process in self._alive():
                if process.longest() > seconds:
                    process.end(f"an image took longer than --image_timeout {seconds}")

    def _on_end(self, process: _Process, at_work: bool, code: int, last_words: str) -> None:
        if self._closed.is_set():
            return
        words = f" ({clip(last_words, 300)})" if last_words else ""
        goes_on = "The build goes on without it"
        if at_work:
            goes_on = "The images that it had in hand are made one by one, each in a process of its own"
            with contextlib.suppress(OSError), self._changing:
                self._add(fork=False, settings=process.settings)
        self._tell_once(f"a process that encodes ended with code {code}{words}. {goes_on}")

    def _tell_once(self, what: str) -> None:
        """Logs one line per pool: processes that cannot start all fail alike."""
        if not self._told:
            self._told = True
            _LOG.warning("%s.", what)


def _error_of(ended: Made) -> BaseException | None:
    return CancelledError() if ended.cancelled() else ended.exception()  # cancelled: dropped by ``close``


def _pass_on(ended: Made, made: Made) -> None:
    error = _error_of(ended)
    made.set_result(ended.result()) if error is None else made.set_exception(error)


class _Process:
    def __init__(self, fork: bool, on_end: Callable[[_Process, bool, int, str], None]) -> None:
        self.ahead = 1  # part that it accepts beside the one that it makes
        self.ended = False
        self.settings: EncoderSettings | None = None
        self._ready, self._late = False, ""
        self._versions: Future[dict[str, str] | None] = Future()
        self._made: dict[tuple[str, int], Made] = {}
        self._lock = threading.Lock()
        self._on_end = on_end
        with shared_file() as file:
            self._times = mmap.mmap(file.fileno(), 0)
            serve = functools.partial(worker.serve, watched=file.fileno())
            self._child: Child = Fork(serve) if fork else Program(_BOOT, file.fileno())
        threading.Thread(target=self._collect, name="pool", daemon=True).start()
        self._send(os.getpid())

    @property
    def load(self) -> int:
        """Parts in hand."""
        return len(self._made)

    def open(self, plan: Plan, settings: EncoderSettings) -> None:
        self.settings = settings
        self._send((plan, settings))

    def codec_versions(self, options: ImageOptions) -> Future[dict[str, str] | None]:
        """Its answer; None if the process ends before."""
        self._send(options)
        return self._versions

    def begin(self, split: str, part: int, packed: Sequence[bytes]) -> Made:
        """Gives the process a part. The future raises _LostError if the process ends."""
        made: Made = Future()
        with self._lock:
            if self.ended:
                made.set_exception(_LostError(at_work=False))
                return made
            self._made[split, part] = made
        self._send((split, part, tuple(packed)))
        return made

    def longest(self) -> float:
        """Seconds that the slowest image has been in a codec."""
        return longest(self._times)

    def end(self, why: str) -> None:
        """Ends the process because of an image."""
        self._late = why
        self._child.kill()

    def close(self) -> None:
        self._child.close()

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError, ValueError):  # the process has ended; ``_collect`` sees that
            self._child.send(message)

    def _collect(self) -> None:
        """Passes results on until the process ends; runs in a thread."""
        with contextlib.suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                self._take(self._child.recv())
        with self._lock:
            self.ended, left, self._made = True, list(self._made.values()), {}
        if not self._versions.done():
            self._versions.set_result(None)
        at_work = self._ready and bool(left)
        try:
            self._on_end(self, at_work, self._child.wait(), self._late or self._child.last_words())
        finally:  # somebody waits for them
            for made in left:
                made.set_exception(_LostError(at_work))

    def _take(self, message: object) -> None:
        if isinstance(message, worker.LogLine):
            _LOG.log(message.level, "%s", message.text)
        elif isinstance(message, worker.Answer):
            retry.count_retries(message.retries)
            with self._lock:
                made = self._made.pop((message.split, message.part))
            if message.made is not None:
                made.set_result(message.made)
            else:
                error: BaseException = pickle.loads(message.error)
                error.__cause__ = _Traceback(message.traceback)
                made.set_exception(error)
        elif isinstance(message, worker.Versions):
            self._versions.set_result(message.of)
        else:
            self._ready = True
