"""What a helper runs (see ``pipeline.helpers``): parts of its own choice until it is told to finish, then those it is given.

Standard input brings pickles of the builder's: an order, then ``("begin",)``, ``("finish",)``, ``("plan", plan)`` and
``("part", split, part, packed references)``. Its end means that the builder is done, or dead, and ends this process at once.
A copy of standard output takes a line of JSON for everything that the builder has to know, and one every second; what other
code prints goes nowhere.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from pipeline.config import BuildConfig
from pipeline.helpers import MARK
from shardfeed import storage
from shardfeed.errors import ShardfeedError
from transforms.assigning import split_by_part
from transforms.claim import claim_output
from transforms.elements import Plan, RefBatch
from transforms.encoding import PartEncoder
from transforms.images.versions import codec_versions
from transforms.listing import list_sections, sections_of
from transforms.plan import make_plan
from transforms.run_state import Made
from transforms.totals import add_totals, count_batch, label_batch

_IN_HAND = 2  # parts of its own choice
_ALIVE_SECONDS = 1.0
_REF_BYTES = 100  # of a packed reference, about


def serve() -> None:
    """Runs until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the builder decides what Ctrl-C means
    commands, lines = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    builder, *order = pickle.load(commands)
    try:
        server = _Server(lines, *order)
        threading.Thread(target=server.watch, args=(builder,), daemon=True).start()
        server.open_stores()
        if pickle.load(commands) == ("begin",):
            server.run(commands)
    finally:
        os._exit(1)  # not through the interpreter's end, which waits for the threads' last images


class _Server:
    def __init__(
        self, lines: BinaryIO, config: BuildConfig, number: int, count: int, threads: int, most: int, tell: bool
    ) -> None:
        self._lines = lines
        self._config, self._number, self._count, self._threads = config, number, count, threads
        self._most, self._tell = most, tell
        self._finish, self._room = threading.Event(), threading.Semaphore(_IN_HAND)
        self._given: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._saying = threading.Lock()
        self._encoder: PartEncoder | None = None

    def watch(self, builder: int) -> None:
        """Says every second that it is alive, and ends with its builder: the end of standard input is not seen while a process
        that the builder's program forked holds the pipe.
        """
        while not hasattr(os, "getppid") or os.getppid() == builder:
            self._say("alive")
            time.sleep(_ALIVE_SECONDS)
        os._exit(0)

    def open_stores(self) -> None:
        """Imports what they need, for a bucket half a second's worth, while the builder looks whether there is anything to do."""
        for url in (*(root.url for root in self._config.roots), self._config.output):
            storage.open_store(url)

    def run(self, commands: BinaryIO) -> None:
        threading.Thread(target=self._listen, args=(commands,), daemon=True).start()
        try:
            self._make_own()
        except ShardfeedError as error:  # what the graph does not hear of here it meets by itself
            self._say("stopped", code=error.code, text=str(error))
        self._say("ready")
        while True:
            what, *given = self._given.get()
            if what == "plan":
                self._open(*given)
            else:
                self._make(*given)

    def _listen(self, commands: BinaryIO) -> None:
        try:
            while True:
                message = pickle.load(commands)
                if message == ("finish",):
                    self._finish.set()
                    self._room.release()  # who waits for it looks again
                else:
                    self._given.put(message)
        finally:
            os._exit(0)

    def _make_own(self) -> None:
        if not self._most:
            return
        config = self._config
        batches: list[RefBatch] = []
        seen = 0
        for (root, section), batch in list_sections(config.roots, sections_of(config.roots)):
            seen += len(batch.refs)
            if self._tell:
                self._say("listed", root=root, section=_text(section), batch=_text(batch.to_bytes()))
            elif self._finish.is_set() or seen > self._most * _REF_BYTES:
                return
            if seen <= self._most * _REF_BYTES:
                batches += label_batch(batch, config.options)
        self._say("all listed")
        if seen > self._most * _REF_BYTES:
            return
        totals = add_totals(count_batch(batch, config.options) for batch in batches)
        if not batches or totals.candidates > self._most or self._finish.is_set():
            return
        plan = make_plan(totals, config.options, codec_versions(config.options.image))
        self._say("plan", fingerprint=plan.fingerprint, images=totals.candidates)
        first = claim_output(storage.open_store(config.output), plan, config.options, totals.digest)
        self._say("claimed", first=first)
        self._open(plan)
        for (split, part), packed in self._own(batches, plan):
            self._room.acquire()
            if self._finish.is_set():
                return
            self._say("begun", split=split, part=part)
            self._make(split, part, packed).add_done_callback(lambda _: self._room.release())

    def _own(self, batches: list[RefBatch], plan: Plan) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
        """Its share of the parts with their references. Uses ``batches`` up: references are held once."""
        grouped: dict[tuple[str, int], list[bytes]] = {}
        while batches:
            batch = batches.pop()
            if batch.refs:
                by_part = split_by_part(batch.refs, plan.splits[batch.split].parts, self._config.options.seed)
                for part, refs in by_part.items():
                    grouped.setdefault((batch.split, part), []).append(refs)
        mine = deque(sorted(grouped.items())[self._number :: self._count])
        grouped.clear()
        while mine:
            yield mine.popleft()

    def _open(self, plan: Plan) -> None:
        if self._encoder is None:
            config = self._config
            self._encoder = PartEncoder(
                sources=[root.url for root in config.roots],
                output=config.output,
                plan=plan,
                options=config.options,
                threads=self._threads,
                processes=self._count + 1,
            )

    def _make(self, split: str, part: int, packed: Sequence[bytes]) -> Made:
        assert self._encoder is not None  # the plan comes first
        made = self._encoder.begin(split, part, packed)
        made.add_done_callback(functools.partial(self._report, split, part))
        return made

    def _report(self, split: str, part: int, made: Made) -> None:
        if made.exception() is not None:
            self._say("failed", split=split, part=part)
            return
        result, spent = made.result()
        self._say("made", result=json.loads(result.to_bytes()), spent=spent.to_raw())

    def _say(self, what: str, **said: Any) -> None:
        line = MARK + json.dumps({"what": what, **said}).encode() + b"\n"
        with self._saying:
            self._lines.write(line)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
