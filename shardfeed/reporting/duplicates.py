"""Groups of near-duplicate images from ``duplicates.jsonl``, the worst first.

A picture with two labels is worse than one in two splits, and that is worse than a plain copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardfeed.dataset.info import DatasetInfo
from shardfeed.format import naming
from shardfeed.reporting.lines import json_lines

GROUPS_SHOWN = 40  # groups
MEMBERS = 6  # images of a group


@dataclass(frozen=True, slots=True)
class Member:
    """An image of a group."""

    key: str
    label: str
    split: str


@dataclass
class Group:
    """Images that look alike.

    Attributes:
        images: Their number.
        exact: True if all of them are the same file.
        distance: The largest distance from the first one, in bits of the hash.
    """

    images: int = 0
    exact: bool = True
    distance: int = 0
    _members: dict[str, Member] = field(default_factory=dict)

    @property
    def members(self) -> list[Member]:
        """The images to show: those that differ from the first in label or split come early."""
        first, *others = self._members.values()
        others.sort(key=lambda member: (member.label == first.label, member.split == first.split))
        return [first, *others[: MEMBERS - 1]]

    @property
    def labels(self) -> list[str]:
        """Their labels."""
        return list(dict.fromkeys(member.label for member in self._members.values()))

    @property
    def splits(self) -> list[str]:
        """Their splits."""
        return list(dict.fromkeys(member.split for member in self._members.values()))

    def add(self, line: Mapping[str, Any]) -> None:
        """Adds an edge; a field that is not there is taken for empty."""
        keys = _texts(line.get("keys"))
        labels, splits = _texts(line.get("labels")), _texts(line.get("splits"))
        for key, label, split in zip(keys, [*labels, "", ""], [*splits, "", ""], strict=False):
            if key not in self._members:
                self._members[key] = Member(key, label, split)
        self.images = max(self.images, _number(line.get("images")), len(self._members))
        self.exact = self.exact and line.get("exact") is True
        self.distance = max(self.distance, _number(line.get("distance")))


def worst_groups(dataset: DatasetInfo) -> list[Group]:
    """The groups to show, at most 40.

    Raises:
        DatasetError: the file is damaged.
        StorageError: the store kept failing.
    """
    if naming.DUPLICATES not in {file.file for file in dataset.manifest.files}:
        return []
    groups: dict[str, Group] = {}
    for line in json_lines(dataset, naming.DUPLICATES):
        if _texts(line.get("keys")):
            groups.setdefault(str(line.get("group")), Group()).add(line)
    return sorted(groups.values(), key=lambda group: (len(group.labels) < 2, len(group.splits) < 2, -group.images))[
        :GROUPS_SHOWN
    ]


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _texts(value: Any) -> list[str]:
    """Texts of a list: a list of labels is one text, and null is none."""
    return [each if isinstance(each, str) else _text(each) for each in value] if isinstance(value, list) else []


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
