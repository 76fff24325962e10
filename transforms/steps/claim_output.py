"""ClaimOutput: Totals -> the Plan, after the output has been claimed for it."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed.transforms import stores
from shardfeed.transforms.elements import Plan, Totals
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import claim_output
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run


@dataclass(eq=False, kw_only=True)
class ClaimOutput(beam.PTransform[Any, Any]):
    """Checks the listing, makes the plan, and claims the output before any image is read."""

    options: BuildOptions
    unmatched: Limit
    run: Run

    def expand(self, totals: PCollection[Totals]) -> PCollection[Plan]:
        launchers = codec_versions(self.options.image)
        return totals | "Claim" >> beam.Map(_claim, self.options, launchers, self.unmatched, self.run)


def _claim(totals: Totals, options: BuildOptions, codecs: dict[str, str], unmatched: Limit, run: Run) -> Plan:
    with reported(run):
        run.check()
        plan = make_plan(totals, options, codecs, unmatched)
        claim_output(stores.open_output(run.output), plan, options, totals.digest)
    run.total = totals.candidates
    return plan
