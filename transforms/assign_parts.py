"""AssignParts: batches of references -> references by (split, part), grouped."""

from collections.abc import Iterable

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.hashing import hash64
from transforms import types  # noqa: F401 (registers the coders)
from transforms.elements import Plan, RefBatch, unpack_keys


class AssignParts(beam.PTransform):
    """part = hash64("part", seed, key) * P >> 64. The only shuffle of the job that grows with the data: references only."""

    def __init__(self, plan: PCollection[Plan], *, seed: int) -> None:
        super().__init__()
        self._plan, self._seed = plan, seed

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[tuple[tuple[str, int], Iterable[bytes]]]:
        return (
            batches
            | "HashKeys" >> beam.ParDo(_HashKeys(self._seed), AsSingleton(self._plan))
            | "GroupByPart" >> beam.GroupByKey()
        )


class _HashKeys(beam.DoFn):
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def process(self, batch: RefBatch, plan: Plan) -> Iterable[tuple[tuple[str, int], bytes]]:
        if not batch.refs:
            return []
        parts = plan.splits[batch.split].parts
        grouped: dict[int, list[bytes]] = {}
        for key, packed in unpack_keys(batch.refs):
            grouped.setdefault(hash64("part", self._seed, key) * parts >> 64, []).append(packed)
        return [((batch.split, part), b"".join(refs)) for part, refs in grouped.items()]
