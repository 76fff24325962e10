"""Class and split of an image, from its key alone.

The class is the first folder below the root, as torchvision and Keras take it; with ``--splits
folders`` the split is the first and the class the second. A split by ratio hashes the key in a
domain of its own, so adding images never moves the others, and the split is independent of the
part an image lands in.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.hashing import hash64

_SPLIT_FOLDERS = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}
_TRAINING_FOLDERS = _SPLIT_FOLDERS.keys() | {"training", "testing", "eval"}


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Parsed ``--splits``: (name, upper bound of hash64) in order; empty = by folders."""

    bounds: tuple[tuple[str, int], ...]

    @property
    def by_folders(self) -> bool:
        """Whether the first folder is the split, and the second the class."""
        return not self.bounds

    def class_of(self, key: bytes) -> str:
        """Class of a key that has been labelled before."""
        return class_name(key.split(b"/", 2)[1 if self.by_folders else 0])

    def split_of(self, key: bytes) -> str:
        """Split of a key by name or ratio."""
        if len(self.bounds) == 1:
            return self.bounds[0][0]
        value = hash64("split", 0, key)
        return next(name for name, bound in self.bounds if value < bound)


@functools.lru_cache(maxsize=8)
def parse_splits(text: str) -> SplitRule:
    """The rule in ``--splits``: ``train``, ``train=0.9,validation=0.1`` or ``folders``.

    Raises:
        UsageError: a name or ratio that cannot be, or ratios that do not add up to 1.
    """
    if text == "folders":
        return SplitRule(())
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
    if len(set(names)) < len(names):
        raise UsageError(f"--splits {clip(text)}: a split is named twice. Name each once.")
    if any(share <= 0 for _, share in shares) or sum(share for _, share in shares) != 1:
        raise UsageError(
            f"--splits {clip(text)}: the shares add up to {_as_text(sum(share for _, share in shares))}; each must be above 0 "
            "and together they must be exactly 1. Example: --splits train=0.8,validation=0.1,test=0.1"
        )
    upto = itertools.accumulate(share for _, share in shares)
    return SplitRule(tuple((name, int(bound * (1 << 64))) for name, bound in zip(names, upto, strict=True)))


def _as_text(number: Fraction | int) -> str:
    return f"{float(number):g}" if -(10**15) < number < 10**15 else "far from 1"


FAULTS = {
    "no_class": (
        "{count} images lie directly in the input root, without a class folder: {examples}. Move each into the folder of its "
        "class (ROOT/cat/1.jpg), or give a narrower glob (--input 'ROOT/*/*.jpg')."
    ),
    "no_split": (
        "with --splits folders the first folder must be a split and the second a class (ROOT/train/cat/1.jpg); {count} images "
        "lie elsewhere: {examples}. Allowed splits: train, validation (val, valid), test. Move them, or use another --splits."
    ),
    "class_not_utf8": (
        "{count} images lie in a class folder whose name is not UTF-8: {examples}. Rename the folder: its name becomes a label."
    ),
}


FOLDER_FAULTS = {
    "no_images": (
        "{count} folder(s) hold files, but not one image: {examples}. Each would be a class or a split without images. Move them "
        "out of the input, hide them with a dot before the name, or give a glob (--input 'ROOT/*/*.jpg')."
    ),
    "linked_folder": (
        "{count} symbolic link(s) stand where a class folder should be: {examples}. Links to folders are not followed. Put the "
        "real folders there, give what they lead to as --input, hide the links with a dot before the name, or give a glob "
        "(--input 'ROOT/*/*.jpg')."
    ),
}


def split_or_fault(key: bytes, rule: SplitRule) -> tuple[str, str]:
    """(split, "") of a key, or ("", fault) if it has no label; ``fault``: a key of ``FAULTS``."""
    split, (first, slash, rest) = "", key.partition(b"/")
    if rule.by_folders:
        split = _SPLIT_FOLDERS.get(first.decode("utf-8", "replace"), "")
        first, slash, rest = rest.partition(b"/")
        if not split or not slash or not first:
            return "", "no_split"
    elif not slash or not first:
        return "", "no_class"
    try:
        class_name(first)
    except UnicodeDecodeError:
        return "", "class_not_utf8"
    return split or rule.split_of(key), ""


@functools.lru_cache(maxsize=100_000)
def class_name(folder: bytes) -> str:
    """A folder's name as a label. Raises UnicodeDecodeError if it is not UTF-8."""
    return folder.decode("utf-8")


def choose_classes(found: Iterable[str], class_list: tuple[str, ...] | None, rule: SplitRule) -> tuple[str, ...]:
    """The classes in label order: the locked list, or the folders sorted by their UTF-8 bytes.

    Raises:
        UsageError: look-alikes, folders that are not in the list, listed classes without images,
        folders that are splits.
    """
    names = sorted(found, key=str.encode)
    _refuse_lookalikes(names)
    if not rule.by_folders and names and "train" in names and set(names) <= _TRAINING_FOLDERS:
        raise UsageError(
            f"the top folders are {', '.join(names)}: they look like splits, not classes. Give --splits folders to take the "
            "split from the first folder and the class from the second."
        )
    if class_list is None:
        return tuple(names)
    allowed, there = set(class_list), set(names)
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise UsageError(
            f"folders that are not in --class_list: {_some(unknown)}. Allowed: {_some(list(class_list))}. "
            "Add them to the list, rename them, or leave them out of --input."
        )
    absent = [name for name in class_list if name not in there]
    if absent:
        raise UsageError(
            f"classes of --class_list without a single image: {_some(absent)}. Add images, or take them out of the list."
        )
    return class_list


def _refuse_lookalikes(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        folded = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        other = seen.setdefault(folded, name)
        if other != name:
            raise UsageError(
                f"class folders {ascii(other)} and {ascii(name)} differ only in case, spaces or Unicode form. They would be "
                "two classes. Rename one, or move its images into the other."
            )


def _some(names: list[str], most: int = 10) -> str:
    shown = ", ".join(clip(name, 60) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
