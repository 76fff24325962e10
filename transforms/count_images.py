"""CountImages: labelled batches -> one Totals."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from transforms import types  # noqa: F401 (registers the coders)
from transforms.elements import RefBatch, Totals
from transforms.options import BuildOptions
from transforms.totals import add_totals, count_batch


class CountImages(beam.PTransform[Any, Any]):
    """Counts, bytes, key sums and the listing's digest, by split and class."""

    def __init__(self, options: BuildOptions) -> None:
        super().__init__()
        self._options = options

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[Totals]:
        options = self._options

        # Without defaults: every listed section gives a batch, so there is always something to add up, and ten steps fewer.
        def count(batch: RefBatch) -> Totals:
            return count_batch(batch, options)

        return batches | "CountBatches" >> beam.Map(count) | "AddUp" >> beam.CombineGlobally(_Sum()).without_defaults()


@beam.typehints.with_input_types(Totals)
@beam.typehints.with_output_types(Totals)
class _Sum(beam.CombineFn):
    def get_accumulator_coder(self) -> beam.coders.Coder:
        return beam.coders.registry.get_coder(Totals)

    def create_accumulator(self) -> Totals:
        return Totals()

    def add_input(self, accumulator: Totals, totals: Totals) -> Totals:
        return add_totals((accumulator, totals))

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        return add_totals(accumulators)

    def extract_output(self, accumulator: Totals) -> Totals:
        return accumulator
