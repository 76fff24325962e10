"""Commit: everything -> the manifest, last; then the parts are swept, the claim at the very end."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton, PCollection

from shardfeed.format import naming
from shardfeed.transforms import stores
from shardfeed.transforms.elements import Duplicates, FileResult, Plan, ShardResult, Totals, Verdict
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.manifest_commit import RunRecord, commit, drop_claim, leftovers, sweep
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run


@dataclass(eq=False, kw_only=True)
class Commit(beam.PTransform[Any, Any]):
    """Waits for all shards and rejects files, publishes the manifest, gives its fingerprint."""

    totals: PCollection[Totals]
    plan: PCollection[Plan]
    shards: PCollection[ShardResult]
    rejects: PCollection[FileResult]
    duplicates: PCollection[Duplicates]
    unmatched: PCollection[bytes] | None
    options: BuildOptions
    record: RunRecord
    run: Run

    def expand(self, verdict: PCollection[Verdict]) -> PCollection[str]:
        return verdict | "PublishManifest" >> beam.Map(
            _publish,
            AsSingleton(self.totals),
            AsSingleton(self.plan),
            AsIter(self.shards),
            AsIter(self.rejects),
            AsSingleton(self.duplicates),
            () if self.unmatched is None else AsIter(self.unmatched),
            self.options,
            self.record,
            self.run,
        )


@dataclass(eq=False, kw_only=True)
class Sweep(beam.PTransform[Any, Any]):
    """Deletes what the build left below ``_parts/``, many files at a time.

    ``keep_parts`` leaves all but the claim.
    """

    run: Run
    keep_parts: bool

    def expand(self, published: PCollection[str]) -> PCollection[int]:
        swept = (
            published
            | "FindLeftovers" >> beam.FlatMap(_find_leftovers, self.run, self.keep_parts)
            | "SpreadLeftovers" >> beam.Reshuffle()
            | "DeleteLeftovers" >> beam.Map(_delete, self.run)
        )
        return published | "DropClaim" >> beam.Map(_drop_claim, AsIter(swept), self.run)


def _publish(
    verdict: Verdict,
    totals: Totals,
    plan: Plan,
    shards: Iterable[ShardResult],
    rejects: Iterable[FileResult],
    duplicates: Duplicates,
    unmatched: Iterable[bytes],
    options: BuildOptions,
    record: RunRecord,
    run: Run,
) -> str:
    with reported(run):
        run.check()
        return commit(
            stores.open_output(run.output),
            plan=plan,
            totals=totals,
            counts=verdict.counts,
            shards=shards,
            rejects=rejects,
            duplicates=duplicates,
            unmatched=b"".join(unmatched),
            options=options,
            record=record,
        ).fingerprint


def _find_leftovers(_fingerprint: str, run: Run, keep_parts: bool) -> Iterable[list[str]]:
    run.enter("sweeping")
    store, own = stores.open_output(run.output), naming.outcome_name(run.run_id)
    return [list(names) for names in leftovers(store, own, keep_parts=keep_parts)]


def _delete(names: list[str], run: Run) -> int:
    return sweep(stores.open_output(run.output), names)


def _drop_claim(_fingerprint: str, failed: Iterable[int], run: Run) -> int:
    return sum(failed) + drop_claim(stores.open_output(run.output))
