"""LabelImages: batches of references -> the same, cut by split."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning import stratify
from shardfeed.transforms.planning.stratify import ClassSizes, Cuts, Tally
from shardfeed.transforms.planning.totals import label_batch
from shardfeed.transforms.steps.combine import add_up


@dataclass(eq=False, kw_only=True)
class LabelImages(beam.PTransform[Any, Any]):
    """Gives every reference its split; the class follows from the key.

    References without a label are counted, then refused. With ``--stratify`` passes over the
    references come first, which find the bounds of the splits.
    """

    options: BuildOptions

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[RefBatch]:
        if not self.options.stratify:
            return batches | "Label" >> beam.FlatMap(label_batch, self.options).with_output_types(RefBatch)
        cuts = batches | "FindCuts" >> _FindCuts(options=self.options)
        label = beam.FlatMap(_label, self.options, AsSingleton(cuts))
        return batches | "Label" >> label.with_output_types(RefBatch)


@dataclass(eq=False, kw_only=True)
class _FindCuts(beam.PTransform[Any, Any]):
    options: BuildOptions

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[Cuts]:
        cuts = (
            batches
            | "SizeClasses" >> beam.Map(stratify.class_sizes, self.options).with_output_types(ClassSizes)
            | "AddSizes" >> add_up(ClassSizes, stratify.add_sizes)
            | "FirstCuts" >> beam.Map(stratify.first_cuts, self.options).with_output_types(Cuts)
        )
        for number in range(stratify.PASSES):
            seen = (
                batches
                | f"Tally{number}" >> beam.Map(stratify.tally, self.options, AsSingleton(cuts)).with_output_types(Tally)
                | f"AddTallies{number}" >> add_up(Tally, stratify.add_tallies)
            )
            cuts = cuts | f"Narrow{number}" >> beam.Map(stratify.narrow, AsSingleton(seen)).with_output_types(Cuts)
        return cuts


def _label(batch: RefBatch, options: BuildOptions, cuts: Cuts) -> list[RefBatch]:
    return label_batch(batch, options, cuts.bounds)
