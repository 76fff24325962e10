"""WriteRejects: the verdict -> rejects files, and the verdict again once they are written, if it lets the build go on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed import naming, storage
from shardfeed.errors import IncompleteError, TooManyRejectsError
from transforms import types  # noqa: F401 (registers the coders)
from transforms.elements import FileResult, Plan, RejectsPlan, Verdict
from transforms.outcome import Output, reported
from transforms.rejects_files import plan_rejects, write_rejects
from transforms.side_inputs import AsIter, AsSingleton


@dataclass(eq=False)
class WriteRejects(beam.PTransform[Any, Any]):
    """Writes the rejects of a good build into the output, those of a failed one below ``_parts/`` where they can be read."""

    plan: PCollection[Plan]
    output: Output

    def expand(self, verdict: PCollection[Verdict]) -> PCollection[FileResult]:
        return (
            verdict
            | "CutFiles" >> beam.FlatMap(_cut).with_output_types(RejectsPlan)
            | "SpreadFiles" >> beam.Reshuffle()
            | "Write" >> beam.ParDo(_Write(self.output), AsSingleton(self.plan), AsSingleton(verdict))
        )

    def display_data(self) -> dict[str, Any]:
        return {"output": self.output.url}


@dataclass(eq=False)
class Proceed(beam.PTransform[Any, Any]):
    """The verdict, if it is good; else the end of the run, with the rejects files in hand."""

    rejects: PCollection[FileResult]
    output: Output

    def expand(self, verdict: PCollection[Verdict]) -> PCollection[Verdict]:
        return verdict | "Proceed" >> beam.ParDo(_Proceed(self.output), AsIter(self.rejects))

    def display_data(self) -> dict[str, Any]:
        return {"output": self.output.url}


def _cut(verdict: Verdict) -> Iterable[RejectsPlan]:
    if verdict.code == IncompleteError.code:  # the engine lost images: no reject is the reason
        return []
    return plan_rejects(verdict.counts.rejects_by_part)


class _Write(beam.DoFn):
    def __init__(self, output: Output) -> None:
        self._output = output

    def process(self, rejects: RejectsPlan, plan: Plan, verdict: Verdict) -> Iterable[FileResult]:
        folder = f"{naming.work_folder(plan.fingerprint)}/rejects" if verdict.code else ""
        with reported(self._output):
            store = storage.open_store(self._output.url)
            return [write_rejects(store, plan.fingerprint, rejects, folder=folder)]


class _Proceed(beam.DoFn):
    def __init__(self, output: Output) -> None:
        self._output = output

    def process(self, verdict: Verdict, rejects: Iterable[FileResult]) -> Iterable[Verdict]:
        with reported(self._output, sorted(file.file for file in rejects)):
            if verdict.code:
                raise (TooManyRejectsError if verdict.code == TooManyRejectsError.code else IncompleteError)(
                    verdict.message
                )
        return [verdict]
