"""Commit: everything -> the manifest, last; then the parts are swept, the claim at the very end."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton, PCollection

from shardfeed.format import naming
from shardfeed.transforms import stores
from shardfeed.transforms.elements import FileResult, Plan, ShardResult, Totals, Verdict
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import hold_claim
from shardfeed.transforms.publish.manifest_commit import RunRecord, commit, drop_claim, leftovers, sweep
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)


@dataclass(eq=False)
class Commit(beam.PTransform[Any, Any]):
    """Waits for all shards and rejects files, publishes the manifest, gives its fingerprint."""

    totals: PCollection[Totals]
    plan: PCollection[Plan]
    shards: PCollection[ShardResult]
    rejects: PCollection[FileResult]
    options: BuildOptions
    record: RunRecord
    run: Run

    def expand(self, verdict: PCollection[Verdict]) -> PCollection[str]:
        return verdict | "PublishManifest" >> beam.ParDo(
            _Publish(self.options, self.record, self.run),
            AsSingleton(self.totals),
            AsSingleton(self.plan),
            AsIter(self.shards),
            AsIter(self.rejects),
        )

    def display_data(self) -> dict[str, Any]:
        return {"output": self.run.output, "run_id": self.run.run_id}


@dataclass(eq=False)
class Sweep(beam.PTransform[Any, Any]):
    """Deletes what the build left below ``_parts/``, many files at a time; ``keep_parts`` leaves all but the claim."""

    run: Run
    keep_parts: bool

    def expand(self, published: PCollection[str]) -> PCollection[int]:
        swept = (
            published
            | "FindLeftovers" >> beam.ParDo(_FindLeftovers(self.run, self.keep_parts))
            | "SpreadLeftovers" >> beam.Reshuffle()
            | "DeleteLeftovers" >> beam.ParDo(_Delete(self.run))
        )
        return published | "DropClaim" >> beam.ParDo(_DropClaim(self.run), AsIter(swept))

    def display_data(self) -> dict[str, Any]:
        return {"keep_parts": self.keep_parts}


class _Publish(beam.DoFn):
    def __init__(self, options: BuildOptions, record: RunRecord, run: Run) -> None:
        self._options, self._record, self._run = options, record, run

    def process(
        self,
        verdict: Verdict,
        totals: Totals,
        plan: Plan,
        shards: Iterable[ShardResult],
        rejects: Iterable[FileResult],
    ) -> Iterable[str]:
        with reported(self._run):
            self._run.check()
            store = stores.open_output(self._run.output)
            hold_claim(store, plan.fingerprint)
            manifest = commit(
                store,
                plan=plan,
                totals=totals,
                counts=verdict.counts,
                shards=shards,
                rejects=rejects,
                options=self._options,
                record=self._record,
            )
        return [manifest.fingerprint]


class _FindLeftovers(beam.DoFn):
    def __init__(self, run: Run, keep_parts: bool) -> None:
        self._run, self._keep_parts = run, keep_parts

    def process(self, _fingerprint: str) -> Iterable[list[str]]:
        self._run.enter("sweeping")
        store, own = stores.open_output(self._run.output), naming.outcome_name(self._run.run_id)
        return [list(names) for names in leftovers(store, own, keep_parts=self._keep_parts)]


class _Delete(beam.DoFn):
    def __init__(self, run: Run) -> None:
        self._run = run

    def process(self, names: list[str]) -> Iterable[int]:
        return [sweep(stores.open_output(self._run.output), names)]


class _DropClaim(beam.DoFn):
    def __init__(self, run: Run) -> None:
        self._run = run

    def process(self, _fingerprint: str, failed: Iterable[int]) -> Iterable[int]:
        return [sum(failed) + drop_claim(stores.open_output(self._run.output))]
