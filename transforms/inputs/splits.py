"""Split of an image: one name for all, ratios on a hash, its first folder, or a table's column.

A ratio hashes the key, or with ``--group_by`` the name of the image's group, in a domain of its
own. So adding images never moves the others, a group is never divided, and the split is independent
of the part an image lands in. With ``--stratify`` each class has bounds of its own, which follow
from its images (``planning/stratify.py``): the shares are exact, but for groups, and new images may
move old ones.

Where folders or a column choose the split, ``--group_by`` chooses nothing: it refuses a group that
lies in two splits.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.hashing import hash64, hash128
from shardfeed.transforms.metadata.row import unpack_table_row
from shardfeed.transforms.options import BuildOptions

SPLIT_FOLDERS = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How images get their split.

    ``bounds``: (name, upper bound of hash64) in order, for names and ratios. ``column``: name of
    the table's column that holds the split. Without both the first folder is the split.
    ``grouped``: the row's group is hashed in place of the key, if there are ratios. ``cuts``: with
    ``--stratify``, upper bounds of hash128 by class, or by group.
    """

    bounds: tuple[tuple[str, int], ...] = ()
    column: str = ""
    grouped: bool = False
    cuts: Mapping[str, tuple[int, ...]] | None = None

    @property
    def by_folders(self) -> bool:
        """Whether the first folder is the split, and the second the class."""
        return not self.bounds and not self.column

    @property
    def checks_groups(self) -> bool:
        """Whether folders or a column choose the split, and no group may lie in two."""
        return self.grouped and not self.bounds

    def split_or_fault(self, key: bytes, row: bytes, labels: tuple[str, ...]) -> tuple[str, str]:
        """(split, "") of an image, or ("", fault), a key of ``SPLIT_FAULTS``."""
        group = group_of_row(row) if self.grouped else ""
        if self.grouped and not group:
            return "", "no_group"
        if self.by_folders:
            return split_of_folder(key), ""
        if self.column:
            split = split_of_text(unpack_table_row(row).split, self.column) if row else ""
            return (split, "") if split else ("", "split_value")
        if len(self.bounds) == 1:
            return self.bounds[0][0], ""
        unit = group.encode() if self.grouped else key
        if self.cuts is not None:
            spot, bounds = hash128("split", 0, unit), self.cuts[group if self.grouped else stratum(labels)]
            return next(name for (name, _), bound in zip(self.bounds, bounds, strict=True) if spot < bound), ""
        value = hash64("split", 0, unit)
        return next(name for name, bound in self.bounds if value < bound), ""


def group_of_row(row: bytes) -> str:
    """The group that a row names; "" if there is none."""
    return unpack_table_row(row).group if row else ""


def split_of_folder(key: bytes) -> str:
    """The split that the first folder of a key names; "" if it names none."""
    return SPLIT_FOLDERS.get(key.partition(b"/")[0].decode("utf-8", "replace"), "")


def stratum(labels: tuple[str, ...]) -> str:
    """The class that ``--stratify`` counts an image for: the first of its labels by their bytes."""
    return min(labels, key=str.encode, default="")


def split_of_text(text: str, column: str) -> str:
    """The split that a cell of ``column`` names; "" if it cannot be one.

    The usual short names count in any case. A number gets the column's name before
    it: 3 in the column ``fold`` is ``fold_3``.
    """
    text = text.strip()
    name = SPLIT_FOLDERS.get(text.lower(), f"{column}_{text}" if text.isascii() and text.isdigit() else text)
    return name if naming.SPLIT_NAME.fullmatch(name) and name != "rejects" else ""


SPLIT_FAULTS = {
    "split_value": (
        "{images} {have} no name of a split in the column that --splits names: {examples}. Allowed are a letter, then "
        "letters, digits and underscores, or a whole number. Correct the table."
    ),
    "no_group": (
        "{images} {have} no group by --group_by: {examples}. Its expression must match every key and give a group that is "
        "not empty; a column must have a value in every row."
    ),
}


@functools.lru_cache(maxsize=8)
def split_rule(options: BuildOptions) -> SplitRule:
    """The rule of a build, still without the cuts of ``--stratify``.

    Raises:
        UsageError: ``--splits`` or ``--group_by`` are not what they can be, or do not go together.
    """
    rule = parse_splits(options.splits)
    for flag, bad in (
        ("--group_by goes with several splits", options.group_by and len(rule.bounds) == 1),
        ("--stratify goes with ratios", options.stratify and len(rule.bounds) < 2),
    ):
        if bad:
            raise UsageError(f"{flag}, not with --splits {clip(options.splits)}. Example: --splits train=0.9,test=0.1")
    return rule if options.group_by is None else replace(rule, grouped=True)


@functools.lru_cache(maxsize=8)
def parse_splits(text: str) -> SplitRule:
    """The rule in ``--splits``: ``train``, ``train=0.9,validation=0.1``, ``folders``, ``column:C``.

    Raises:
        UsageError: a name or ratio that cannot be, or ratios that do not add up to 1.
    """
    if text == "folders":
        return SplitRule()
    if text.startswith("column:"):
        if not text.removeprefix("column:"):
            raise UsageError("--splits column: names no column. Example: --splits column:fold")
        return SplitRule(column=text.removeprefix("column:"))
    shares: list[tuple[str, Fraction]] = []
    for item in text.split(","):
        name, equals, share = item.partition("=")
        if not naming.SPLIT_NAME.fullmatch(name) or name == "rejects":
            raise UsageError(
                f"--splits {clip(text)}: {clip(name)!r} is not a split name. Allowed: a letter, then letters, digits and "
                'underscores, at most 64 (not "rejects"). Example: --splits train=0.9,validation=0.1'
            )
        try:
            shares.append((name, Fraction(share) if equals else Fraction(1)))
        except (ValueError, ZeroDivisionError):
            raise UsageError(
                f"--splits {clip(text)}: {clip(share)!r} is not a number. Example: train=0.9,test=0.1"
            ) from None
    names = [name for name, _ in shares]
    if len({name.lower() for name in names}) < len(names):
        raise UsageError(f"--splits {clip(text)}: a split is named twice, upper and lower case aside. Name each once.")
    if any(share <= 0 for _, share in shares) or sum(share for _, share in shares) != 1:
        raise UsageError(
            f"--splits {clip(text)}: the shares add up to {_as_text(sum(share for _, share in shares))}; each must be above 0 "
            "and together they must be exactly 1. Example: --splits train=0.8,validation=0.1,test=0.1"
        )
    upto = itertools.accumulate(share for _, share in shares)
    return SplitRule(tuple((name, int(bound * (1 << 64))) for name, bound in zip(names, upto, strict=True)))


def _as_text(number: Fraction | int) -> str:
    return f"{float(number):g}" if -(10**15) < number < 10**15 else "far from 1"
