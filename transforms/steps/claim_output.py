"""ClaimOutput: Totals -> the Plan, after the output has been claimed for it."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed.transforms import stores
from shardfeed.transforms.elements import Plan, Totals
from shardfeed.transforms.images.process import codec_versions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import claim_output
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)


class ClaimOutput(beam.PTransform[Any, Any]):
    """Checks the whole listing, fixes fingerprint and number of parts, and claims the output before any image is read."""

    def __init__(self, options: BuildOptions, *, run: Run) -> None:
        super().__init__()
        self._options, self._run = options, run

    def expand(self, totals: PCollection[Totals]) -> PCollection[Plan]:
        return totals | "Claim" >> beam.ParDo(_Claim(self._options, codec_versions(self._options.image), self._run))

    def display_data(self) -> dict[str, Any]:
        return {"output": self._run.output}


class _Claim(beam.DoFn):
    def __init__(self, options: BuildOptions, codecs: dict[str, str], run: Run) -> None:
        self._options, self._codecs, self._run = options, codecs, run  # the launcher's codecs

    def process(self, totals: Totals) -> Iterable[Plan]:
        with reported(self._run):
            self._run.check()
            plan = make_plan(totals, self._options, self._codecs)
            claim_output(stores.open_output(self._run.output), plan, self._options, totals.digest)
        self._run.total = totals.candidates
        return [plan]
