"""ComposeShards: ShardPlans -> published shards and indexes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.transforms.elements import Plan, ShardPlan, ShardResult
from shardfeed.transforms.publish.composing import compose_shards
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps import metrics


@dataclass(eq=False, kw_only=True)
class ComposeShards(beam.PTransform[Any, Any]):
    """Concatenates parts in the store; the bytes pass through no worker on object stores."""

    plan: PCollection[Plan]
    run: Run

    def expand(self, shards: PCollection[ShardPlan]) -> PCollection[ShardResult]:
        return shards | "Compose" >> beam.ParDo(_Compose(self.run), AsSingleton(self.plan))


class _Compose(beam.DoFn):
    """Composes a bundle's shards at its end, because a bucket takes several at a time."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def start_bundle(self) -> None:
        self._fingerprint, self._bundle = "", list[ShardPlan]()

    def process(self, shard: ShardPlan, plan: Plan) -> None:
        self._bundle.append(shard)
        self._fingerprint = plan.fingerprint

    def finish_bundle(self) -> Iterator[WindowedValue]:
        with reported(self._run):
            composed = compose_shards(self._run, self._fingerprint, self._bundle)
        metrics.count(shards_composed=len(composed))
        yield from map(GlobalWindows.windowed_value, composed)
