"""ComposeShards: ShardPlans -> published shards and indexes."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PCollection

from shardfeed import storage
from transforms import types  # noqa: F401 (registers the coders)
from transforms.composing import compose_shard
from transforms.elements import Plan, ShardPlan, ShardResult
from transforms.outcome import Output, reported
from transforms.run_state import RUN
from transforms.side_inputs import AsSingleton


@dataclass(eq=False)
class ComposeShards(beam.PTransform[Any, Any]):
    """Concatenates parts in the store; the bytes pass through no worker on object stores."""

    plan: PCollection[Plan]
    output: Output

    def expand(self, shards: PCollection[ShardPlan]) -> PCollection[ShardResult]:
        return shards | "Compose" >> beam.ParDo(_Compose(self.output), AsSingleton(self.plan))

    def display_data(self) -> dict[str, Any]:
        return {"output": self.output.url}


class _Compose(beam.DoFn):
    def __init__(self, output: Output) -> None:
        self._output = output
        self._shards = Metrics.counter("shardfeed", "shards_composed")
        self._times = Metrics.distribution("shardfeed", "compose_ms")

    def process(self, shard: ShardPlan, plan: Plan) -> Iterable[ShardResult]:
        with reported(self._output):
            RUN.check()
            began = time.perf_counter()
            result = compose_shard(storage.open_store(self._output.url), plan.fingerprint, shard)
        self._shards.inc()
        self._times.update(round(1000 * (time.perf_counter() - began)))
        return [result]
