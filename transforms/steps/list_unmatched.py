"""ListUnmatched: batches of a joined listing -> the bytes of ``unmatched.jsonl``, if any."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.metadata.join import UNMATCHED_KINDS
from shardfeed.transforms.metadata.unmatched import UnmatchedKeys


@dataclass(eq=False, kw_only=True)
class ListUnmatched(beam.PTransform[Any, Any]):
    """Lists the images without a row and the rows without an image, in one worker."""

    def expand(self, batches: PCollection[RefBatch]) -> PCollection[bytes]:
        return (
            batches
            | "KeepUnmatched" >> beam.Filter(_is_unmatched)
            | "ToOne" >> beam.Map(_to_one).with_output_types(tuple[int, RefBatch])
            | "GroupByKey" >> beam.GroupByKey()
            | "WriteLines" >> beam.Map(_lines).with_output_types(bytes)
        )


def _is_unmatched(batch: RefBatch) -> bool:
    return batch.fault in UNMATCHED_KINDS


def _to_one(batch: RefBatch) -> tuple[int, RefBatch]:
    return 0, batch


def _lines(grouped: tuple[int, Iterable[RefBatch]]) -> bytes:
    found = UnmatchedKeys()
    for batch in grouped[1]:
        found.add(batch)
    return found.lines()
