"""The index and the features ``class`` and ``label`` of a record, from its labels."""

from __future__ import annotations

from collections.abc import Sequence

from shardfeed.format.example import encode_feature, encode_list
from shardfeed.transforms.elements import Plan

LabelFeatures = tuple[int, bytes, bytes]
"""Index of the only class, else -1; the features, which are empty in a dataset without labels."""


class LabelEncoder:
    """Makes the features of labels, for one plan."""

    def __init__(self, plan: Plan) -> None:
        self._kind, self._index = plan.label_kind, {name: index for index, name in enumerate(plan.classes)}
        self._single: dict[str, LabelFeatures] = {}

    def encode(self, labels: Sequence[str]) -> LabelFeatures:
        """The features of a record with these labels; several are in the order of the classes."""
        if self._kind == "none":
            return -1, b"", b""
        if self._kind == "multi":
            found = sorted((self._index[label], label.encode()) for label in labels)
            indexes, names = [index for index, _ in found], [name for _, name in found]
            return -1, encode_list("class", indexes, int), encode_list("label", names, bytes)
        (label,) = labels
        if label not in self._single:
            index = self._index[label]
            self._single[label] = index, encode_feature("class", index), encode_feature("label", label.encode())
        return self._single[label]
