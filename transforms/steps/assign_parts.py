"""AssignParts: batches of references -> references by (split, part), grouped."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.transforms.elements import Plan, RefBatch
from shardfeed.transforms.planning.assign import split_by_part


@dataclass(eq=False, kw_only=True)
class AssignParts(beam.PTransform[Any, Any]):
    """Cuts batches by part and brings each part's references together.

    This is the only shuffle that grows with the data: about 100 bytes per image, never images.
    """

    plan: PCollection[Plan]
    seed: int

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[tuple[tuple[str, int], Iterable[bytes]]]:
        return (
            batches
            | "HashKeys" >> beam.FlatMap(_hash_keys, AsSingleton(self.plan), self.seed)
            | "GroupByPart" >> beam.GroupByKey()
        )


def _hash_keys(batch: RefBatch, plan: Plan, seed: int) -> Iterable[tuple[tuple[str, int], bytes]]:
    if not batch.refs or batch.fault:
        return []
    by_part = split_by_part(batch.refs, plan.splits[batch.split].parts, seed)
    return [((batch.split, part), refs) for part, refs in by_part.items()]
