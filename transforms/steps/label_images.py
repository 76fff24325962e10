"""LabelImages: batches of references -> the same, cut by split."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.totals import label_batch


@dataclass(eq=False, kw_only=True)
class LabelImages(beam.PTransform[Any, Any]):
    """Gives every reference its split; the class follows from the key.

    References without a label are counted, then refused.
    """

    options: BuildOptions

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[RefBatch]:
        return batches | "Label" >> beam.FlatMap(label_batch, self.options).with_output_types(RefBatch)
