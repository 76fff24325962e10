"""Coders of the elements. Importing this module registers them with Beam.

Beam's defaults would not do. A NamedTuple with a schema comes back in another process as a
generated class without methods, and pickles tie the bytes to the code of the moment.
"""

from typing import Any

import apache_beam as beam

from shardfeed.transforms import elements
from shardfeed.transforms.planning import stratify

ELEMENTS = (
    elements.RefBatch,
    elements.Totals,
    elements.Plan,
    elements.PartResult,
    elements.Counts,
    elements.Verdict,
    elements.PartFile,
    elements.ShardPlan,
    elements.ShardResult,
    elements.RejectsPlan,
    elements.FileResult,
    elements.Duplicates,
    stratify.ClassSizes,
    stratify.Cuts,
    stratify.Tally,
)
"""The elements that travel between steps by themselves."""


class ElementCoder(beam.coders.Coder):
    """Coder over ``to_bytes`` and ``from_bytes`` of one class of elements."""

    def __init__(self, element: Any) -> None:
        self.element = element

    @classmethod
    def from_type_hint(cls, typehint: Any, _registry: Any) -> Any:
        """The coder of the class ``typehint``."""
        return cls(typehint)

    def encode(self, value: Any) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> Any:
        return self.element.from_bytes(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return self.element


for _element in ELEMENTS:
    beam.coders.registry.register_coder(_element, ElementCoder)
