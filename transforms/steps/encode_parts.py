"""EncodeParts: grouped references -> finished parts."""

import logging
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton, PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.storage import retry
from shardfeed.transforms.elements import PartResult, Plan
from shardfeed.transforms.encode.part_encoder import PartEncoder
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.encode.timings import Spent
from shardfeed.transforms.images.fixes import FIXES
from shardfeed.transforms.images.rejects import Reason
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.run.versions import require_same
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)

_LOG = logging.getLogger("shardfeed")


@dataclass(eq=False, kw_only=True)
class EncodeParts(beam.PTransform[Any, Any]):
    """Reads, decodes, resizes, encodes and writes each part with a pool of threads; a finished part is not made again."""

    plan: PCollection[Plan]
    sources: tuple[str, ...]
    options: BuildOptions
    threads: int
    encoders: int
    run: Run

    def expand(self, grouped: PCollection[tuple[tuple[str, int], Iterable[bytes]]]) -> PCollection[PartResult]:
        encode = _Encode(self.sources, self.options, self.threads, self.encoders, self.run)
        return grouped | "Encode" >> beam.ParDo(encode, AsSingleton(self.plan))


# An engine may run several copies of the step in one process: they share threads and budgets of memory.
_SLICES: weakref.WeakValueDictionary[tuple[str, str], SliceEncoder] = weakref.WeakValueDictionary()
_OPENING = threading.Lock()


class _Encode(beam.DoFn):
    """Results come one part late, so that the pool has the next part while one is written; ``finish_bundle`` gives the last."""

    def __init__(self, sources: tuple[str, ...], options: BuildOptions, threads: int, encoders: int, run: Run) -> None:
        self._sources, self._options, self._run = sources, options, run
        self._threads, self._encoders = threads, encoders
        self._encoder: PartEncoder | None = None
        self._metrics = _PartMetrics()

    def display_data(self) -> dict[str, Any]:  # here alone: engines show a leaf's, and one place is enough
        shown = {name: str(value) for name, value in self._options.config().items() if value is not None}
        return {
            **shown,
            "input": ", ".join(self._sources),
            "output": self._run.output,
            "threads": self._threads,
        }

    def process(self, element: tuple[tuple[str, int], Iterable[bytes]], plan: Plan) -> Iterator[PartResult]:
        (split, part), packed = element
        with reported(self._run):
            if self._encoder is None:
                self._encoder = self._open(plan)
            for result, spent in self._encoder.submit(split, part, tuple(packed)):
                yield self._count(result, spent)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._encoder is None:
            return
        with reported(self._run):
            for result, spent in self._encoder.flush():
                yield GlobalWindows.windowed_value(self._count(result, spent))

    def teardown(self) -> None:
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None

    def _open(self, plan: Plan) -> PartEncoder:
        self._run.enter("encoding")
        require_same(tuple(plan.versions.items()))
        with _OPENING:
            key = self._run.run_id, plan.fingerprint
            slices = _SLICES[key] = _SLICES.get(key) or SliceEncoder(
                sources=self._sources,
                plan=plan,
                options=self._options,
                run=self._run,
                threads=self._threads,
                encoders=self._encoders,
            )
        return PartEncoder(
            slices,
            sources=self._sources,
            plan=plan,
            options=self._options,
            run=self._run,
        )

    def _count(self, result: PartResult, spent: Spent) -> PartResult:
        self._run.add(result, kept=spent.kept)
        self._metrics.add(result, spent)
        return result


class _PartMetrics:
    """What the engine's screen shows of the parts, counted in the step's own thread: Beam drops what other threads count.

    A counter for each reason and each fix, which are closed sets, but none for a class: engines show about a hundred at most.
    ``*_ms`` are milliseconds of threads a part, not of the clock.
    """

    def __init__(self) -> None:
        def counter(name: str) -> Any:
            return Metrics.counter("shardfeed", name)

        self._made, self._kept = counter("parts_made"), counter("parts_kept")
        self._images_kept = counter("images_kept")  # of the kept parts, written or rejected
        self._written, self._rejected = counter("images_written"), counter("images_rejected")
        self._in, self._out = counter("bytes_in"), counter("bytes_out")
        self._retries = counter("retries")
        self._reasons = {reason.value: counter(f"rejected_{reason.value.lower()}") for reason in Reason}
        self._fixes = {name: counter(f"fix_{name}") for name in FIXES}
        self._times = {
            name: Metrics.distribution("shardfeed", f"{name}_ms") for name in ("read", "decode", "encode", "write")
        }

    def add(self, part: PartResult, spent: Spent) -> None:
        """Counts a part and logs its line."""
        rejected = sum(part.rejected.values())
        (self._kept if spent.kept else self._made).inc()
        self._written.inc(part.records)
        self._rejected.inc(rejected)
        self._out.inc(part.bytes)
        for counters, counts in ((self._reasons, part.rejected), (self._fixes, part.fixes)):
            for name, count in counts.items():
                counters[name].inc(count)
        self._retries.inc(retry.take_retries())
        if spent.kept:
            self._images_kept.inc(part.records + rejected)
            times = "finished by an earlier run"
        else:
            self._in.inc(spent.bytes_in)
            millis = {name: round(getattr(spent, name) * 1000) for name in self._times}
            for name, value in millis.items():
                self._times[name].update(value)
            times = f"{spent.bytes_in} bytes read, " + ", ".join(f"{name} {ms} ms" for name, ms in millis.items())
        _LOG.info(
            "part %s/%05d: %d written, %d rejected, %d bytes; %s",
            part.split,
            part.part,
            part.records,
            rejected,
            part.bytes,
            times,
        )
