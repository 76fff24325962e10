"""EncodeParts: grouped references -> finished parts."""

import logging
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.transforms.elements import PartResult, Plan
from shardfeed.transforms.encode.part_encoder import PartEncoder
from shardfeed.transforms.encode.slices import EncoderSettings, SliceEncoder
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.versions import require_same
from shardfeed.transforms.steps import metrics

_LOG = logging.getLogger("shardfeed")


@dataclass(eq=False, kw_only=True)
class EncodeParts(beam.PTransform[Any, Any]):
    """Reads, encodes and writes each part with threads; finished parts are not made again."""

    plan: PCollection[Plan]
    settings: EncoderSettings

    def expand(self, grouped: PCollection[tuple[tuple[str, int], Iterable[bytes]]]) -> PCollection[PartResult]:
        return grouped | "Encode" >> beam.ParDo(_Encode(self.settings), AsSingleton(self.plan))


# Copies of the step in one process share threads and budgets of memory.
_SLICES: weakref.WeakValueDictionary[tuple[str, str], SliceEncoder] = weakref.WeakValueDictionary()
_OPENING = threading.Lock()


class _Encode(beam.DoFn):
    """Results come one part late, so that the pool has the next part while one is written.

    ``finish_bundle`` gives the last ones.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings, self._run = settings, settings.run
        self._encoder: PartEncoder | None = None

    def display_data(self) -> dict[str, Any]:  # of this step alone: engines show a leaf's, and one is enough
        settings = self._settings
        shown = {name: str(value) for name, value in settings.options.config().items() if value is not None}
        return {**shown, "input": ", ".join(settings.sources), "output": self._run.output, "threads": settings.threads}

    def process(self, element: tuple[tuple[str, int], Iterable[bytes]], plan: Plan) -> Iterator[PartResult]:
        (split, part), packed = element
        with reported(self._run):
            if self._encoder is None:
                self._encoder = self._open(plan)
            for result, kept in self._encoder.submit(split, part, tuple(packed)):
                yield self._count(result, kept)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._encoder is None:
            return
        with reported(self._run):
            for result, kept in self._encoder.flush():
                yield GlobalWindows.windowed_value(self._count(result, kept))

    def teardown(self) -> None:
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None

    def _open(self, plan: Plan) -> PartEncoder:
        self._run.enter("encoding")
        require_same(tuple(plan.versions.items()))
        with _OPENING:
            key = self._run.run_id, plan.fingerprint
            slices = _SLICES[key] = _SLICES.get(key) or SliceEncoder(plan, self._settings)
        return PartEncoder(slices)

    def _count(self, result: PartResult, kept: bool) -> PartResult:
        self._run.add(result, kept=kept)
        _show(result, kept)
        return result


def _show(part: PartResult, kept: bool) -> None:
    """Counts a part and logs its line."""
    rejected = sum(part.rejected.values())
    parts = {"parts_kept": 1, "images_kept": part.records + rejected} if kept else {"parts_made": 1}
    metrics.count(
        images_written=part.records,
        images_rejected=rejected,
        bytes_out=part.bytes,
        **parts,
        **{f"rejected_{reason.lower()}": number for reason, number in part.rejected.items()},
        **{f"fix_{name}": number for name, number in part.fixes.items()},
    )
    by = "an earlier run" if kept else "this run"
    name = f"{part.split}/{part.part:05}"
    _LOG.info("part %s: %d written, %d rejected, %d bytes, by %s", name, part.records, rejected, part.bytes, by)
