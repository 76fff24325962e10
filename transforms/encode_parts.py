"""EncodeParts: grouped references -> finished parts."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from transforms import types  # noqa: F401 (registers the coders)
from transforms.elements import PartResult, Plan
from transforms.encoding import PartEncoder
from transforms.images.fixes import FIXES
from transforms.images.rejects import Reason
from transforms.machine import default_threads
from transforms.options import BuildOptions
from transforms.outcome import Output, reported
from transforms.run_state import RUN, Helpers, WorkerHelpers
from transforms.side_inputs import AsSingleton
from transforms.spent import Spent
from transforms.worker_versions import require_same

_LOG = logging.getLogger("shardfeed")


@dataclass(eq=False)
class EncodeParts(beam.PTransform[Any, Any]):
    """Reads, decodes, resizes, encodes and writes each part with a pool of threads; a part that is there is not redone.

    ``beside``: helpers of the process that encodes, where the program that started the build has none (``RUN.helpers``).
    """

    plan: PCollection[Plan]
    sources: tuple[str, ...]
    options: BuildOptions
    threads: int
    encoders: int
    output: Output
    beside: WorkerHelpers | None = None

    def expand(self, grouped: PCollection[tuple[tuple[str, int], Iterable[bytes]]]) -> PCollection[PartResult]:
        encode = _Encode(self.sources, self.options, self.threads, self.encoders, self.output, self.beside)
        return grouped | "Encode" >> beam.ParDo(encode, AsSingleton(self.plan))


class _Encode(beam.DoFn):
    """Results come one part late, so that the pool has the next part while one is written; ``finish_bundle`` gives the last."""

    def __init__(
        self,
        sources: tuple[str, ...],
        options: BuildOptions,
        threads: int,
        encoders: int,
        output: Output,
        beside: WorkerHelpers | None,
    ) -> None:
        self._sources, self._options, self._output = sources, options, output
        self._threads, self._encoders = threads, encoders
        self._beside = beside
        self._joined: Helpers | None = None
        self._encoder: PartEncoder | None = None
        self._metrics = _PartMetrics()

    def display_data(self) -> dict[str, Any]:  # on the leaf too: engines show a leaf's
        shown = {name: str(value) for name, value in self._options.config().items() if value is not None}
        return {
            **shown,
            "input": ", ".join(self._sources),
            "output": self._output.url,
            "threads": self._threads,
        }

    def process(self, element: tuple[tuple[str, int], Iterable[bytes]], plan: Plan) -> Iterator[PartResult]:
        (split, part), packed = element
        with reported(self._output):
            if self._encoder is None:
                self._encoder = self._open(plan)
            for result in self._encoder.submit(split, part, tuple(packed)):
                yield self._count(result)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._encoder is None:
            return
        window = GlobalWindow()
        with reported(self._output):
            for result in self._encoder.flush():
                yield WindowedValue(self._count(result), window.max_timestamp(), (window,))

    def teardown(self) -> None:
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None
        if self._beside is not None and self._joined is not None:
            self._beside.leave()
            self._joined = None

    def _open(self, plan: Plan) -> PartEncoder:
        RUN.enter("encoding")
        require_same(tuple(plan.versions.items()))
        helpers = self._helpers(plan)
        threads = self._threads or default_threads(self._sources)
        return PartEncoder(
            sources=self._sources,
            output=self._output.url,
            plan=plan,
            options=self._options,
            threads=max(threads - helpers.threads, 1) if helpers else threads,
            encoders=self._encoders,
            processes=helpers.count + 1 if helpers else 1,
            helpers=helpers,
        )

    def _helpers(self, plan: Plan) -> Helpers | None:
        if self._beside is None:
            return RUN.helpers
        if self._joined is None:
            self._joined = self._beside.join(plan)
        return self._joined

    def _count(self, result: PartResult) -> PartResult:
        assert self._encoder is not None  # it made the result
        self._metrics.add(result, self._encoder.spent.pop((result.split, result.part)))
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
        self._read_retries, self._write_retries = counter("read_retries"), counter("write_retries")
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
        self._read_retries.inc(spent.read_retries)
        self._write_retries.inc(spent.write_retries)
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
