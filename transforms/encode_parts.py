"""EncodeParts: grouped references -> finished parts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton, PCollection
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.errors import IncompleteError
from transforms import types  # noqa: F401 (registers the coders)
from transforms.elements import PartResult, Plan
from transforms.encoding import PartEncoder
from transforms.images.process import codec_versions
from transforms.machine import default_threads
from transforms.options import BuildOptions
from transforms.outcome import Output, reported
from transforms.run_state import RUN


@dataclass(eq=False)
class EncodeParts(beam.PTransform[Any, Any]):
    """Reads, decodes, resizes, encodes and writes each part with a pool of threads; a part that is there is not redone."""

    plan: PCollection[Plan]
    sources: tuple[str, ...]
    options: BuildOptions
    threads: int
    output: Output

    def expand(self, grouped: PCollection[tuple[tuple[str, int], Iterable[bytes]]]) -> PCollection[PartResult]:
        encode = _Encode(self.sources, self.options, self.threads, self.output)
        return grouped | "Encode" >> beam.ParDo(encode, AsSingleton(self.plan))


class _Encode(beam.DoFn):
    """Results come one part late, so that the pool has the next part while one is written; ``finish_bundle`` gives the last."""

    def __init__(self, sources: tuple[str, ...], options: BuildOptions, threads: int, output: Output) -> None:
        self._sources, self._options, self._threads, self._output = sources, options, threads, output
        self._encoder: PartEncoder | None = None
        self._written = Metrics.counter("shardfeed", "images_written")
        self._rejected = Metrics.counter("shardfeed", "images_rejected")
        self._bytes = Metrics.counter("shardfeed", "part_bytes")

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

    def _open(self, plan: Plan) -> PartEncoder:
        RUN.enter("encoding")
        here = codec_versions(self._options.image)
        if here != dict(plan.versions):
            differing = ", ".join(
                f"{name} {here.get(name)} here, {plan.versions.get(name)} at the launcher"
                for name in sorted(here.keys() | plan.versions.keys())
                if here.get(name) != plan.versions.get(name)
            )
            raise IncompleteError(
                f"this worker's codecs would give other bytes: {differing}. Give all workers the launcher's versions (one image)."
            )
        helpers = RUN.helpers
        threads = self._threads or default_threads(self._sources)
        return PartEncoder(
            sources=self._sources,
            output=self._output.url,
            plan=plan,
            options=self._options,
            threads=max(threads - helpers.threads, 1) if helpers else threads,
            processes=helpers.count + 1 if helpers else 1,
            helpers=helpers,
        )

    def _count(self, result: PartResult) -> PartResult:
        self._written.inc(result.records)
        self._rejected.inc(sum(result.rejected.values()))
        self._bytes.inc(result.bytes)
        return result
