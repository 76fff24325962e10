"""Processes that encode beside this one, from before Beam is imported until the last part.

Python runs one thread of a process at a time between two calls of a codec, and an import holds that lock: beside the import of
Beam (three seconds with the graph's construction), threads encode at a quarter of their speed, and two threads of one process
use 1.75 cores. So a build in this process has helpers, one a further core. They begin by themselves: each lists the input, makes
the plan, claims the output and finishes its share of the parts by the very functions that the graph uses. When the graph's encode
step takes over it hands them parts as they get free. A helper is a joined build: claim, create-only files and fingerprints make
it safe, and leaving it out, or killing it, changes no byte.

A bucket is listed once: by the first helper, which hands what it found to the graph, and the others begin nothing by themselves.
Of a large listing nothing is begun (three seconds do not matter there). A worker of an engine has helpers that begin nothing by
themselves either (``pipeline.worker_helpers``).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from types import TracebackType
from typing import Any

from pipeline.config import BuildConfig
from shardfeed import storage
from shardfeed.errors import ConflictError, IncompleteError, ShardfeedError, UsageError
from shardfeed.runtime import cores
from transforms.claim import take_back_claim
from transforms.elements import PartResult, Plan, RefBatch
from transforms.listing import Section
from transforms.machine import default_threads
from transforms.run_state import RUN, HelperGoneError, Made
from transforms.spent import Spent

MOST_HELPERS = 15  # about 90 MB each
MOST_IMAGES = 50_000  # that helpers begin by themselves: a build of a minute; of more, each would hold all references
# Isolated (-I): the current folder, often the input, is on nobody's path, nor a site's or a user's own start-up code.
_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from pipeline.helper_process import serve; serve()"
)
_IN_HAND = 2  # parts: one is encoded while the other's result is on its way
_LOOK_SECONDS = 0.2  # between two looks whether the run shall stop
SILENT_SECONDS = 30.0  # a helper says something every second; one that was stopped or hangs is killed after these

_ERRORS: dict[int, type[ShardfeedError]] = {UsageError.code: UsageError, ConflictError.code: ConflictError}

MARK = b"\x1eshardfeed "  # before each line that a helper says

Part = tuple[str, int]


class Helpers:
    """The helpers of one build: processes that start with the with block, and encode in ``at_work``'s.

    ``in_worker``: of an engine's worker, which begin nothing by themselves and encode from ``begin`` to the with block's end.
    """

    def __init__(self, config: BuildConfig, *, in_worker: bool = False) -> None:
        self._config = config
        urls = [root.url for root in config.roots]
        threads = config.threads or default_threads(urls)
        count = min(threads, cores(), MOST_HELPERS + 1) - 1 if config.engine.encodes_here or in_worker else 0
        self._begin_early = not in_worker
        self._lists = self._begin_early and any(map(storage.is_remote, urls))
        self._each = threads // (count + 1)
        most = [MOST_IMAGES if self._begin_early and not (number and self._lists) else 0 for number in range(count)]
        self._orders = [(config, number, count, self._each, most[number], self._lists) for number in range(count)]
        self._helpers: list[_Helper] = []
        self._closed = threading.Event()
        self._asking = threading.Lock()  # an engine may run several copies of a step at a time
        # Parts that helpers began by themselves, from the take-over until the graph comes to each.
        self._begun: dict[Part, Made] | None = None

    def __enter__(self) -> Helpers:
        try:
            for order in self._orders if sys.executable else ():
                with contextlib.suppress(OSError, ValueError):  # no interpreter to start: the others do it all
                    self._helpers.append(_Helper(order))
        except BaseException:  # Ctrl-C: the caller's block is never entered, nor left
            self._close()
            raise
        return self

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """There is something to build: before this block they only start, after it they are gone."""
        try:
            if self._helpers:
                self.begin()
                RUN.helpers = self
            yield
        finally:
            self._close()
            RUN.helpers = None

    def begin(self) -> None:
        """Has them encode."""
        for helper in self._helpers:
            helper.tell("begin")
        threading.Thread(target=self._watch, args=(tuple(self._helpers),), name="helpers", daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def count(self) -> int:
        """Processes besides this one."""
        return len(self._helpers)

    @property
    def threads(self) -> int:
        """Threads that encode in them."""
        return self._each * len(self._helpers)

    def listing(self) -> Mapping[Section, list[RefBatch]] | None:
        """The listing of a helper that makes it for the graph, waited for; None when the graph has to list."""
        return self._helpers[0].listing() if self._lists and self._helpers else None

    def settle(self, fingerprint: str) -> None:
        """Called with the graph's own fingerprint before it claims: another one means that the input changed in between."""
        for helper in self._helpers:
            helper.settle(fingerprint)
        if any(helper.fingerprint not in ("", fingerprint) for helper in self._helpers):
            claimed = [helper.fingerprint for helper in self._helpers if helper.claimed]
            self._close()
            RUN.restart()
            for old in claimed:
                if old != fingerprint:
                    take_back_claim(storage.open_store(self._config.output), old)

    def take_over(self) -> None:
        """Ends what helpers do by themselves. Parts that they have finished by then, or in hand, ``submit`` gives."""
        if not self._begin_early:
            return  # at once: they need not be up
        with self._asking:
            if self._begun is not None:  # by another copy of the step
                return
            for helper in self._helpers:
                helper.tell("finish")
            begun: dict[Part, Made] = {}
            for helper in self._helpers:
                begun |= helper.begun()
            self._begun = begun

    def has_room(self) -> bool:
        """Whether ``submit`` would take a part that nobody has begun."""
        return any(helper.in_hand < _IN_HAND for helper in self._helpers)

    def submit(self, plan: Plan, split: str, part: int, packed: Sequence[bytes]) -> Made | None:
        """A part that a helper has begun by itself, or that the least busy one is now to make; None when all have enough."""
        with self._asking:
            begun = self._begun.pop((split, part), None) if self._begun else None
            if begun is not None:
                return begun
            free = [helper for helper in self._helpers if helper.in_hand < _IN_HAND]
            return min(free, key=lambda helper: helper.in_hand).submit(plan, split, part, packed) if free else None

    def _watch(self, helpers: Sequence[_Helper]) -> None:
        while not self._closed.wait(min(SILENT_SECONDS / 4, 1.0)):
            for helper in helpers:
                helper.kill_if_silent()

    def _close(self) -> None:
        self._closed.set()
        for helper in self._helpers:
            helper.close()
        self._helpers.clear()


class _Helper:
    """One process, and what it said. Its lines are read by a thread; everything else is called by one thread at a time."""

    def __init__(self, order: tuple[BuildConfig, int, int, int, int, bool]) -> None:
        self.fingerprint = ""
        self.claimed = False
        self._listing: dict[Section, list[RefBatch]] = {}
        self._all_listed = False
        self._error: ShardfeedError | None = None  # that ended what it did by itself
        self._listed = threading.Event()  # the listing is whole, or there will be none
        self._made: dict[Part, Made] = {}  # that it has in hand
        # That it finished by itself, until the graph takes over; of what it is given nothing is kept.
        self._finished: dict[Part, Made] | None = {} if order[4] else None
        self._lock = threading.Lock()
        self._ready = threading.Event()  # it does nothing by itself any more, or is gone
        self._gone = False
        self._knows_plan = False
        self._heard = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, *_flags(), "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), name="helper", daemon=True)
        self._reader.start()
        self._send(sys.path, (os.getpid(), *order))

    @property
    def in_hand(self) -> int:
        with self._lock:
            return _IN_HAND if self._gone else len(self._made)

    def listing(self) -> Mapping[Section, list[RefBatch]] | None:
        """What it has listed, once that is everything; None when it is gone.

        Raises:
            ShardfeedError: the input cannot be listed.
        """
        while not self._listed.wait(_LOOK_SECONDS):
            RUN.check()
        if self._error is not None and not self._all_listed:
            raise self._error
        return self._listing if self._all_listed else None

    def settle(self, fingerprint: str) -> None:
        """After this it has made its claim, or will make none; or it claims for ``fingerprint``, which is as good later."""
        if self.fingerprint != fingerprint:
            self.tell("finish")
            self._until_ready()

    def begun(self) -> Mapping[Part, Made]:
        """What it has begun by itself, once it begins no more. The graph has its listing by then."""
        self._until_ready()
        self._listing, self._all_listed = {}, False
        with self._lock:
            begun, self._finished = {**(self._finished or {}), **self._made}, None
            return begun

    def submit(self, plan: Plan, split: str, part: int, packed: Sequence[bytes]) -> Made:
        made, asked = self._expect((split, part))
        if asked:  # by a bundle that was given up
            return made
        if not self._knows_plan:
            self._send(("plan", plan))
            self._knows_plan = True
        self._send(("part", split, part, tuple(packed)))
        return made

    def tell(self, what: str) -> None:
        self._heard = time.monotonic()
        self._send((what,))

    def kill_if_silent(self) -> None:
        """Ends a process that was stopped or hangs: whoever waits for its parts makes them itself."""
        if time.monotonic() - self._heard > SILENT_SECONDS:
            self._process.kill()

    def close(self) -> None:
        """Ends the process at once, whatever it is doing; what it has in hand is left as by any kill."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        # Not for ever: a process that this program forked while the helper was started may hold the pipe's other end.
        self._reader.join(1.0)
        if not self._reader.is_alive():
            self._process.stdout.close()

    def _until_ready(self) -> None:
        while not self._ready.wait(_LOOK_SECONDS):
            RUN.check()

    def _send(self, *messages: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, or was closed: the reader knows
            self._process.stdin.write(b"".join(map(pickle.dumps, messages)))
            self._process.stdin.flush()

    def _expect(self, part: Part) -> tuple[Made, bool]:
        """The part's future, and whether it was expected already."""
        with self._lock:
            made = self._made.get(part)
            if made is not None:
                return made, True
            made = self._made[part] = Future()
            if self._gone:
                made.set_exception(HelperGoneError())
        return made, False

    def _end(self, part: Part) -> Made:
        """A part that is not in hand any more."""
        with self._lock:
            made = self._made.pop(part)
            if self._finished is not None:
                self._finished[part] = made
        return made

    def _read(self, lines: Iterable[bytes]) -> None:
        try:
            for line in lines:
                _, ours, said = line.partition(MARK)  # what else is printed there by code that is not ours is nothing
                if ours and line.endswith(b"\n"):  # else it was killed in the middle of it
                    self._heard = time.monotonic()
                    self._hear(**json.loads(said))
        except (
            ValueError,
            LookupError,
            TypeError,
            InvalidStateError,
        ):  # other code wrote into a line of ours: nothing of it is to be trusted
            self._process.kill()
        finally:
            with self._lock:
                self._gone = True
                waiting = [made for made in self._made.values() if not made.done()]
            for made in waiting:
                made.set_exception(HelperGoneError())
            self._listed.set()
            self._ready.set()

    def _hear(self, what: str, **said: Any) -> None:
        match what:
            case "listed":
                section = said["root"], base64.b64decode(said["section"])
                self._listing.setdefault(section, []).append(RefBatch.from_bytes(base64.b64decode(said["batch"])))
            case "all listed":
                self._all_listed = True
                self._listed.set()
            case "stopped":
                self._error = _ERRORS.get(said["code"], IncompleteError)(said["text"])
            case "plan":
                self.fingerprint, RUN.total = said["fingerprint"], said["images"]
                RUN.enter("encoding")
            case "claimed":
                self.claimed = said["first"]
            case "begun":
                self._expect((said["split"], said["part"]))
            case "ready":
                self._listed.set()
                self._ready.set()
            case "made":
                result = PartResult.from_raw(said["result"])
                spent = Spent(*said["spent"])
                RUN.add(result, kept=spent.kept)
                self._end((result.split, result.part)).set_result((result, spent))
            case "failed":
                self._end((said["split"], said["part"])).set_exception(HelperGoneError())


def _flags() -> list[str]:
    """This interpreter's ways that ``-I`` would forget: how names become bytes, and whether compiled modules are kept."""
    return ["-I", "-X", f"utf8={sys.flags.utf8_mode}", *["-B"] * sys.dont_write_bytecode]
