"""Reconcile: all parts and the listing's totals -> one Verdict."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.transforms.elements import Counts, PartResult, Plan, Totals, Verdict
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.publish.verdict import counts_of, judge, sum_counts
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps.combine import add_up


@dataclass(eq=False, kw_only=True)
class Reconcile(beam.PTransform[Any, Any]):
    """Proves that every listed image was written or rejected, and applies the limit on rejects."""

    totals: PCollection[Totals]
    plan: PCollection[Plan]
    limit: Limit
    run: Run

    def expand(self, parts: PCollection[PartResult]) -> PCollection[Verdict]:
        return (
            parts
            | "CountParts" >> beam.Map(counts_of).with_output_types(Counts)
            | "AddUp" >> add_up(Counts, sum_counts)
            | "Judge" >> beam.Map(_judge, AsSingleton(self.totals), AsSingleton(self.plan), self.limit, self.run)
        )


def _judge(counts: Counts, totals: Totals, plan: Plan, limit: Limit, run: Run) -> Verdict:
    run.enter("publishing")
    return judge(counts, totals, plan, limit)
