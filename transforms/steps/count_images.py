"""CountImages: labelled batches -> one Totals."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed.transforms.elements import RefBatch, Totals
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.totals import add_totals, count_batch
from shardfeed.transforms.steps import metrics
from shardfeed.transforms.steps.combine import add_up


@dataclass(eq=False, kw_only=True)
class CountImages(beam.PTransform[Any, Any]):
    """Counts, bytes, key sums and the listing's digest, by split and class."""

    options: BuildOptions

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[Totals]:
        return batches | "CountBatches" >> beam.Map(_count, self.options) | "AddUp" >> add_up(Totals, add_totals)


def _count(batch: RefBatch, options: BuildOptions) -> Totals:
    """``images_listed`` is what ends as written, rejected or skipped."""
    totals = count_batch(batch, options)
    skipped, size = sum(totals.skipped.values()), sum(split.bytes for split in totals.splits.values())
    metrics.count(images_listed=totals.candidates + skipped, images_skipped=skipped, bytes_listed=size)
    return totals
