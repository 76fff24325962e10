"""The classes of a dataset, from the names that were found and what the user says of them."""

from __future__ import annotations

from collections.abc import Iterable

from shardfeed.errors import UsageError, clip
from shardfeed.transforms.inputs.lookalikes import find_lookalikes
from shardfeed.transforms.inputs.splits import SPLIT_FOLDERS, parse_splits
from shardfeed.transforms.options import BuildOptions
from shardfeed.words import some_of

_SPLITS = SPLIT_FOLDERS.keys() | {
    "training", "testing", "eval", "evaluation", "dev", "devel", "development", "holdout", "hold-out", "hold_out", "heldout",
    "trainval", "train_val", "minival", "unlabeled", "unlabelled",
}  # fmt: skip


def choose_classes(found: Iterable[str], named: Iterable[str], options: BuildOptions) -> tuple[str, ...]:
    """The classes in label order: the locked list, or what was found, sorted by its UTF-8 bytes.

    ``named``: what was found before ``--class_map``.

    Raises:
        UsageError: look-alikes; names that are not in the list, or are only there; names of the map
            that were not found; folders that are splits.
    """
    names, class_list = sorted(found, key=str.encode), options.class_list
    where = "class folders" if options.label_from == "folders" else "labels"
    there, listed = set(named), set(class_list or ())
    if absent := [name for name, _ in options.class_map or () if name not in there]:
        raise UsageError(
            f"--class_map maps {where} without a single image: {_some(absent)}. Correct these names, or remove them from the map."
        )
    if pair := find_lookalikes(name for name in names if name not in listed):
        raise UsageError(_alike(where, *pair))
    if class_list is None:
        _refuse_splits(names, options)
        return tuple(names)
    if unknown := [name for name in names if name not in listed]:
        raise UsageError(
            f"{where.split()[-1]} that are not in --class_list: {_some(unknown)}. Allowed: {_some(class_list)}. "
            "Add them to the list, rename them, or leave them out of --input."
        )
    there = set(names)
    if absent := [name for name in class_list if name not in there]:
        raise UsageError(
            f"classes of --class_list without a single image: {_some(absent)}. Add images, or take them out of the list."
        )
    return class_list


def _alike(where: str, one: str, other: str) -> str:
    return (
        f"{where} {ascii(one)} and {ascii(other)} look alike: they differ only in case, spaces, invisible characters, dashes, "
        "Unicode form or letters of another script. They would be two classes. Rename one, make them one class with --class_map, "
        "or name both in --class_list if they are meant."
    )


def _refuse_splits(names: list[str], options: BuildOptions) -> None:
    """Refuses top folders that are splits, even among classes. One ``train`` may be a railway's."""
    if options.label_from != "folders" or options.label_depth != 1 or parse_splits(options.splits).by_folders:
        return
    alike = [name for name in names if name.strip().casefold() in _SPLITS]
    if not alike or alike == ["train"] != names:
        return
    rename = [name for name in alike if name not in SPLIT_FOLDERS]
    how = f" Rename {_some(rename)} to one of {', '.join(SPLIT_FOLDERS)} before." if rename else ""
    if others := [name for name in names if name not in alike]:
        how += f" Beside them are {_some(others)}: move these into the folders of the splits, or the splits out of --input."
    raise UsageError(
        f"the first folders below --input look like splits, not classes: {_some(alike)}. Give --splits folders to take the "
        f"split from the first folder and the class from the second.{how} If they are classes, name all classes in "
        "--class_list. If the class is no folder, say where it comes from: --metadata TABLE --label_column NAME, or "
        "--label_from regex or none."
    )


def _some(names: Iterable[str]) -> str:
    return some_of([clip(name, 60) for name in names], 10)
