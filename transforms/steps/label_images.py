"""LabelImages: batches of references -> the same, cut by split."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.totals import label_batch
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)


class LabelImages(beam.PTransform[Any, Any]):
    """Gives every reference its split; the class follows from the key. What cannot be labelled is counted, then refused."""

    def __init__(self, options: BuildOptions) -> None:
        super().__init__()
        self._options = options

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[RefBatch]:
        return batches | "Label" >> beam.ParDo(_Label(self._options))

    def display_data(self) -> dict[str, Any]:
        return {"splits": self._options.splits}


class _Label(beam.DoFn):
    def __init__(self, options: BuildOptions) -> None:
        self._options = options

    def process(self, batch: RefBatch) -> Iterable[RefBatch]:
        return label_batch(batch, self._options)
