"""PackShards: part sizes and the verdict -> ShardPlans."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.transforms.elements import PartFile, PartResult, Plan, ShardPlan, Verdict
from shardfeed.transforms.publish.packing import part_file, plan_shards


@dataclass(eq=False, kw_only=True)
class PackShards(beam.PTransform[Any, Any]):
    """Packs each split's parts by their exact sizes.

    It waits for the verdict: nothing is packed that may not be published.
    """

    verdict: PCollection[Verdict]
    plan: PCollection[Plan]
    shard_bytes: int

    def expand(self, parts: PCollection[PartResult]) -> PCollection[ShardPlan]:
        return (
            parts
            | "TakeSizes" >> beam.Map(_size_of)
            | "GroupBySplit" >> beam.GroupByKey()
            | "Pack" >> beam.FlatMap(_pack, AsSingleton(self.plan), AsSingleton(self.verdict), self.shard_bytes)
            | "SpreadShards" >> beam.Reshuffle()
        )


def _size_of(part: PartResult) -> tuple[str, PartFile]:
    return part.split, part_file(part)


def _pack(
    grouped: tuple[str, Iterable[PartFile]], plan: Plan, _verdict: Verdict, shard_bytes: int
) -> Iterable[ShardPlan]:
    split, parts = grouped
    return plan_shards(split, list(parts), plan, shard_bytes)
