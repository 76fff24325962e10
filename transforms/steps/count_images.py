"""CountImages: labelled batches -> one Totals."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PCollection

from shardfeed.transforms.elements import RefBatch, Totals
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.totals import add_totals, count_batch
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)
from shardfeed.transforms.steps.combine import add_up


@dataclass(eq=False, kw_only=True)
class CountImages(beam.PTransform[Any, Any]):
    """Counts, bytes, key sums and the listing's digest, by split and class."""

    options: BuildOptions

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[Totals]:
        return batches | "CountBatches" >> beam.ParDo(_Count(self.options)) | "AddUp" >> add_up(Totals, add_totals)


class _Count(beam.DoFn):
    """``images_listed`` is what ends as written, rejected or skipped."""

    def __init__(self, options: BuildOptions) -> None:
        self._options = options
        self._listed = Metrics.counter("shardfeed", "images_listed")
        self._skipped = Metrics.counter("shardfeed", "images_skipped")
        self._bytes = Metrics.counter("shardfeed", "bytes_listed")

    def process(self, batch: RefBatch) -> Iterable[Totals]:
        totals = count_batch(batch, self._options)
        skipped = sum(totals.skipped.values())
        self._skipped.inc(skipped)
        self._listed.inc(totals.candidates + skipped)
        self._bytes.inc(sum(split.bytes for split in totals.splits.values()))
        return [totals]
