"""EncodeParts: grouped references -> finished parts."""

import functools
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.transforms.elements import PartResult, Plan
from shardfeed.transforms.encode.in_flight import PartsInFlight
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.pool.pool import Pool
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.versions import require_same_versions
from shardfeed.transforms.steps import metrics

_LOG = logging.getLogger("shardfeed")


@dataclass(eq=False, kw_only=True)
class EncodeParts(beam.PTransform[Any, Any]):
    """Reads, encodes and writes each part with threads; finished parts are not made again."""

    plan: PCollection[Plan]
    settings: EncoderSettings

    def expand(self, grouped: PCollection[tuple[tuple[str, int], Iterable[bytes]]]) -> PCollection[PartResult]:
        return grouped | "Encode" >> beam.ParDo(_Encode(self.settings), AsSingleton(self.plan))


# Copies of the step in one process share a pool, its threads and its budgets. The last one closes
# it; so does the end of the run, because an engine may forget a step that has failed.
_POOLS: dict[tuple[str, ...], Pool] = {}
_USERS = Counter[tuple[str, ...]]()
_SHARING = threading.RLock()


class _Encode(beam.DoFn):
    """Results come one part late, so that the pool has the next part while one is written.

    ``finish_bundle`` gives the last ones.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings, self._run = settings, settings.run
        self._flying: PartsInFlight | None = None
        self._key: tuple[str, ...] = ()

    def display_data(self) -> dict[str, Any]:  # of this step alone: engines show a leaf's, and one is enough
        settings = self._settings
        shown = {name: str(value) for name, value in settings.options.config().items() if value is not None}
        return {**shown, "input": ", ".join(settings.sources), "output": self._run.output, "threads": settings.threads}

    def process(self, element: tuple[tuple[str, int], Iterable[bytes]], plan: Plan) -> Iterator[PartResult]:
        (split, part), packed = element
        with reported(self._run):
            if self._flying is None:
                self._flying = self._open(plan)
            for result, kept in self._flying.submit(split, part, tuple(packed)):
                yield self._count(result, kept)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._flying is None:
            return
        with reported(self._run):
            for result, kept in self._flying.flush():
                yield GlobalWindows.windowed_value(self._count(result, kept))

    def teardown(self) -> None:
        if self._flying is not None:
            self._flying = None
            with _SHARING:
                _USERS[self._key] -= 1
                if not _USERS[self._key]:
                    _close(self._key)

    def _open(self, plan: Plan) -> PartsInFlight:
        self._run.enter("encoding")
        require_same_versions(tuple(plan.versions.items()))
        self._key = self._run.run_id, self._run.output, plan.fingerprint
        with _SHARING:
            _USERS[self._key] += 1
            if (pool := _POOLS.get(self._key)) is None:
                pool = _POOLS[self._key] = Pool()
                self._run.at_end(functools.partial(_close, self._key))
                pool.grow(1)
                pool.open(plan, self._settings)
        return PartsInFlight(pool, self._run)

    def _count(self, result: PartResult, kept: int) -> PartResult:
        self._run.add(result, kept)
        _show(result, kept)
        return result


def _close(key: tuple[str, ...]) -> None:
    with _SHARING:
        _USERS.pop(key, None)
        if (pool := _POOLS.pop(key, None)) is not None:
            pool.close()


def _show(part: PartResult, kept: int) -> None:
    """Counts a part and logs its line."""
    rejected, is_made = part.images - part.records, kept < part.images
    parts = {"parts_made": 1} if is_made else {"parts_kept": 1}
    metrics.count(
        images_written=part.records,
        images_kept=kept,
        images_rejected=rejected,
        bytes_out=part.bytes,
        **parts,
        **{f"rejected_{reason.lower()}": number for reason, number in part.rejected.items()},
        **{f"fix_{name}": number for name, number in part.fixes.items()},
    )
    by = "this run" if is_made else "an earlier run"
    name = f"{part.split}/{part.part:05}"
    _LOG.info("part %s: %d written, %d rejected, %d bytes, by %s", name, part.records, rejected, part.bytes, by)
