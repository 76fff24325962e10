"""JoinRows: batches of references, and a metadata table -> the same references with their rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.metadata.join import match_bucket, refs_by_bucket, table_in_buckets, without_refs
from shardfeed.transforms.metadata.table import MetadataTable
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run


@dataclass(eq=False, kw_only=True)
class JoinRows(beam.PTransform[Any, Any]):
    """Gives every reference its row of the table, bucket by bucket.

    What does not match is counted, then refused.
    """

    table: MetadataTable
    run: Run

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[RefBatch]:
        rows = (
            batches.pipeline
            | "NameTable" >> beam.Create([self.table.url], reshuffle=False).with_output_types(str)
            | "ReadRows" >> beam.FlatMap(_read, self.table, self.run)
        )
        refs = batches | "HashKeys" >> beam.FlatMap(_hash)
        joined = (
            {"refs": refs, "rows": rows}
            | "GroupByKey" >> beam.CoGroupByKey()
            | "Match" >> beam.FlatMap(_match).with_output_types(RefBatch)
        )
        others = batches | "KeepOthers" >> beam.Map(without_refs).with_output_types(RefBatch)
        return (joined, others) | "Join" >> beam.Flatten()


def _read(_url: str, table: MetadataTable, run: Run) -> Iterator[tuple[int, bytes]]:
    with reported(run):
        for rows in table_in_buckets(table, run.check):
            yield from rows.items()


def _hash(batch: RefBatch) -> Iterable[tuple[int, bytes]]:
    return refs_by_bucket(batch).items()


def _match(grouped: tuple[int, dict[str, Iterable[bytes]]]) -> Iterator[RefBatch]:
    return match_bucket(grouped[1]["refs"], grouped[1]["rows"])
