"""Coders of the elements: importing this module registers them with Beam (its only purpose, and its one side effect).

Ours because the defaults would not do: a schema'd NamedTuple comes back in another process as a generated class without
methods, and pickles tie the bytes to the code of the moment.
"""

from typing import Any

import apache_beam as beam

from shardfeed.transforms import elements


class _BytesCoder(beam.coders.Coder):
    """Coder over ``to_bytes``/``from_bytes`` of one element class."""

    element: Any

    def encode(self, value: Any) -> bytes:
        data: bytes = value.to_bytes()
        return data

    def decode(self, encoded: bytes) -> Any:
        return self.element.from_bytes(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return self.element

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class RefBatchCoder(_BytesCoder):
    element = elements.RefBatch


class TotalsCoder(_BytesCoder):
    element = elements.Totals


class PlanCoder(_BytesCoder):
    element = elements.Plan


class PartResultCoder(_BytesCoder):
    element = elements.PartResult


class CountsCoder(_BytesCoder):
    element = elements.Counts


class VerdictCoder(_BytesCoder):
    element = elements.Verdict


class PartFileCoder(_BytesCoder):
    element = elements.PartFile


class ShardPlanCoder(_BytesCoder):
    element = elements.ShardPlan


class ShardResultCoder(_BytesCoder):
    element = elements.ShardResult


class RejectsPlanCoder(_BytesCoder):
    element = elements.RejectsPlan


class FileResultCoder(_BytesCoder):
    element = elements.FileResult


for _coder in _BytesCoder.__subclasses__():
    beam.coders.registry.register_coder(_coder.element, _coder)
