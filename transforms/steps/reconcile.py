"""Reconcile: all parts and the listing's totals -> one Verdict."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.transforms.elements import Counts, PartResult, Plan, Totals, Verdict
from shardfeed.transforms.publish.verdict import RejectLimit, counts_of, judge, sum_counts
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)
from shardfeed.transforms.steps.combine import add_up


@dataclass(eq=False)
class Reconcile(beam.PTransform[Any, Any]):
    """Proves that every listed image was written or rejected, and applies the limit on rejects."""

    totals: PCollection[Totals]
    plan: PCollection[Plan]
    limit: RejectLimit
    run: Run

    def expand(self, parts: PCollection[PartResult]) -> PCollection[Verdict]:
        return (
            parts
            | "CountParts" >> beam.Map(counts_of).with_output_types(Counts)
            | "AddUp" >> add_up(Counts, sum_counts)
            | "Judge" >> beam.ParDo(_Judge(self.limit, self.run), AsSingleton(self.totals), AsSingleton(self.plan))
        )

    def display_data(self) -> dict[str, Any]:
        limit = self.limit
        share = f"{100 * limit.share[0] / limit.share[1]:g}%, at least {limit.floor} images"
        return {"max_rejected": str(limit.count) if limit.count is not None else share}


class _Judge(beam.DoFn):
    def __init__(self, limit: RejectLimit, run: Run) -> None:
        self._limit, self._run = limit, run

    def process(self, counts: Counts, totals: Totals, plan: Plan) -> Iterable[Verdict]:
        self._run.enter("publishing")
        return [judge(counts, totals, plan, self._limit)]
