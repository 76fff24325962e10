"""WriteRejects: the verdict -> rejects files.

Proceed: the verdict again, once they are written, if it lets the build go on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton, PCollection

from shardfeed.transforms import stores
from shardfeed.transforms.elements import FileResult, Plan, RejectsPlan, Verdict
from shardfeed.transforms.publish.rejects_files import plan_rejects, write_rejects
from shardfeed.transforms.publish.verdict import require_good
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run


@dataclass(eq=False, kw_only=True)
class WriteRejects(beam.PTransform[Any, Any]):
    """Writes rejects: of a good build into the output, of a failed one below ``_parts/``."""

    plan: PCollection[Plan]
    run: Run

    def expand(self, verdict: PCollection[Verdict]) -> PCollection[FileResult]:
        return (
            verdict
            | "CutFiles" >> beam.FlatMap(plan_rejects).with_output_types(RejectsPlan)
            | "SpreadFiles" >> beam.Reshuffle()
            | "Write" >> beam.Map(_write, AsSingleton(self.plan), AsSingleton(verdict), self.run)
        )


@dataclass(eq=False, kw_only=True)
class Proceed(beam.PTransform[Any, Any]):
    """The verdict, if it is good; else the end of the run, with the rejects files in hand."""

    rejects: PCollection[FileResult]
    run: Run

    def expand(self, verdict: PCollection[Verdict]) -> PCollection[Verdict]:
        return verdict | "Proceed" >> beam.Map(_proceed, AsIter(self.rejects), self.run)


def _write(rejects: RejectsPlan, plan: Plan, verdict: Verdict, run: Run) -> FileResult:
    with reported(run):
        return write_rejects(stores.open_output(run.output), plan.fingerprint, rejects, verdict)


def _proceed(verdict: Verdict, rejects: Iterable[FileResult], run: Run) -> Verdict:
    with reported(run, sorted(file.file for file in rejects)):
        require_good(verdict)
    return verdict
