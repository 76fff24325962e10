"""ComposeShards: ShardPlans -> published shards, indexes and tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.transforms.elements import Duplicates, Plan, ShardPlan, ShardResult
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.composing import compose_shards
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps import metrics


@dataclass(eq=False, kw_only=True)
class ComposeShards(beam.PTransform[Any, Any]):
    """Concatenates parts in the store; the bytes pass through no worker on object stores."""

    plan: PCollection[Plan]
    duplicates: PCollection[Duplicates]
    options: BuildOptions
    run: Run

    def expand(self, shards: PCollection[ShardPlan]) -> PCollection[ShardResult]:
        return shards | "Compose" >> beam.ParDo(
            _Compose(self.options, self.run), AsSingleton(self.plan), AsSingleton(self.duplicates)
        )


class _Compose(beam.DoFn):
    """Composes a bundle's shards at its end, because a bucket takes several at a time."""

    def __init__(self, options: BuildOptions, run: Run) -> None:
        self._options, self._run = options, run

    def start_bundle(self) -> None:
        self._known: tuple[Plan, Duplicates] | None = None
        self._bundle = list[ShardPlan]()

    def process(self, shard: ShardPlan, plan: Plan, duplicates: Duplicates) -> None:
        self._bundle.append(shard)
        self._known = plan, duplicates

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._known is None:
            return
        plan, duplicates = self._known
        with reported(self._run):
            composed = compose_shards(self._run, plan, self._options, duplicates, self._bundle)
        metrics.count(shards_composed=len(composed))
        yield from map(GlobalWindows.windowed_value, composed)
