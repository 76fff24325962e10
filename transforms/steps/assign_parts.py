"""AssignParts: batches of references -> references by (split, part), grouped."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.transforms.elements import Plan, RefBatch
from shardfeed.transforms.planning.assign import split_by_part
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)


class AssignParts(beam.PTransform[Any, Any]):
    """Cuts batches by part and brings each part's references together.

    The only shuffle of the job that grows with the data: references, about 100 bytes an image, never images.
    """

    def __init__(self, plan: PCollection[Plan], *, seed: int) -> None:
        super().__init__()
        self._plan, self._seed = plan, seed

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[tuple[tuple[str, int], Iterable[bytes]]]:
        return (
            batches
            | "HashKeys" >> beam.ParDo(_HashKeys(self._seed), AsSingleton(self._plan))
            | "GroupByPart" >> beam.GroupByKey()
        )

    def display_data(self) -> dict[str, Any]:
        return {"seed": self._seed}


class _HashKeys(beam.DoFn):
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def process(self, batch: RefBatch, plan: Plan) -> Iterable[tuple[tuple[str, int], bytes]]:
        if not batch.refs:
            return []
        by_part = split_by_part(batch.refs, plan.splits[batch.split].parts, self._seed)
        return [((batch.split, part), refs) for part, refs in by_part.items()]
