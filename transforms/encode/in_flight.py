"""Parts that are being made: how many at a time, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol

from shardfeed.transforms.elements import PartResult
from shardfeed.transforms.run.state import LOOK_SECONDS, Run

Made = Future[tuple[PartResult, int]]
"""A part that is being made, and how many of its images an earlier run had finished."""


class PartMaker(Protocol):
    """Makes parts. ``ahead``: how many should be in flight beside the first."""

    @property
    def ahead(self) -> int: ...

    def begin(self, split: str, part: int, packed: Sequence[bytes]) -> Made: ...


class PartsInFlight:
    """The parts that one caller has a maker make.

    Not thread-safe: one caller submits and collects.
    """

    def __init__(self, maker: PartMaker, run: Run) -> None:
        self._maker, self._run = maker, run
        self._in_flight: list[Made] = []

    def submit(self, split: str, part: int, packed: Sequence[bytes]) -> Iterator[tuple[PartResult, int]]:
        """Begins a part; yields those that are finished. Waits if too many are in flight."""
        self._in_flight.append(self._maker.begin(split, part, packed))
        yield from self._finished(0.0)
        while len(self._in_flight) > self._maker.ahead:
            yield from self._finished(LOOK_SECONDS)

    def flush(self) -> Iterator[tuple[PartResult, int]]:
        """Waits for the parts in flight and yields them."""
        while self._in_flight:
            yield from self._finished(LOOK_SECONDS)

    def _finished(self, seconds: float) -> Iterator[tuple[PartResult, int]]:
        """The parts that are finished within ``seconds`` from now."""
        self._run.check()
        done, _ = wait(self._in_flight, seconds, FIRST_COMPLETED)
        ended = [made for made in self._in_flight if made in done]
        self._in_flight = [made for made in self._in_flight if made not in done]
        for made in ended:
            yield made.result()
