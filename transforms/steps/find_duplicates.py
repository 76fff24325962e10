"""FindDuplicates: the verdict -> what is known of duplicates, once all pictures are compared."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from shardfeed.transforms import stores
from shardfeed.transforms.duplicates.find import find_duplicates
from shardfeed.transforms.elements import Duplicates, Plan, Verdict
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run


@dataclass(eq=False, kw_only=True)
class FindDuplicates(beam.PTransform[Any, Any]):
    """Compares the pictures of all parts, in one worker; without ``look`` it does nothing."""

    plan: PCollection[Plan]
    look: bool
    fail: bool
    run: Run

    def expand(self, verdict: PCollection[Verdict]) -> PCollection[Duplicates]:
        return verdict | "Find" >> beam.Map(_find, AsSingleton(self.plan), self.look, self.fail, self.run)


def _find(verdict: Verdict, plan: Plan, look: bool, fail: bool, run: Run) -> Duplicates:
    if not look:
        return Duplicates()
    with reported(run):
        return find_duplicates(stores.open_output(run.output), plan, verdict.counts, fail=fail)
