"""Labels of an image: from its key, or from a table's row.

By default the class is the first folder below the root, as torchvision and Keras take it; with
``--splits folders`` the split is the first and the class the second. What ``--label_regex`` finds
in a key is put into the image's row before, so that it is like a label of a table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shardfeed.transforms.inputs.splits import SPLIT_FAULTS, SplitRule, split_of_folder, split_rule
from shardfeed.transforms.metadata.join import TABLE_FAULTS
from shardfeed.transforms.metadata.row import labels_of_row
from shardfeed.transforms.options import BuildOptions, LabelFrom

DROPPED = "class_map"
"""``Labelled.fault`` of an image whose class ``--class_map`` drops; it counts as skipped."""

# ``{images}`` is the count with its noun, ``{lie}`` the verb that goes with it.
FAULTS = {
    "missing": (
        "{files} of the list {are} not there: {examples}. Take them out of the list, or put them there. If it is all of "
        "them, --list_root or the table's column (@list.csv:COLUMN) may be the wrong one."
    ),
    "list_of_one_folder": (
        "all images of the list lie in one folder ({examples}), which would be the only class. Rows are paths below the list's "
        "folder or --list_root: let them begin with the class folder (cd PHOTOS; find . -type f), name the root of "
        "full paths, or give --label_depth 2 if the classes are the folders in it."
    ),
    "archive_of_one_folder": (
        "all images of the archive lie in one folder ({examples}), which would be the only class. Give --label_depth 2 if "
        "the classes are the folders in it; or make the archive again from inside of that folder."
    ),
    "no_class": (
        "{images} {lie} directly in the input root, without a class folder: {examples}. Move each into the folder of its "
        "class (ROOT/cat/1.jpg), or give a narrower glob (--input 'ROOT/*/*.jpg'). If the class is no folder, say where it comes "
        "from: --metadata TABLE --label_column NAME, or --label_from regex or none."
    ),
    "no_split": (
        "with --splits folders the first folder must be a split and the second a class (ROOT/train/cat/1.jpg); {images} "
        "{lie} elsewhere: {examples}. Allowed splits: train, validation (val, valid), test. Move them, or use another --splits."
    ),
    "class_not_utf8": (
        "{images} {lie} in a class folder whose name is not UTF-8: {examples}. Rename the folder: its name becomes a label."
    ),
    "no_split_folder": (
        "with --splits folders the first folder must be a split (ROOT/train/1.jpg); {images} {lie} elsewhere: {examples}. "
        "Allowed splits: train, validation (val, valid), test. Move them, or use another --splits."
    ),
    "too_shallow": (
        "--label_depth {label_depth}: {images} {lie} less than {depth} folders below the input root: {examples}. Give a "
        "smaller --label_depth, move them, or give a narrower glob (--input 'ROOT/*/*/*.jpg')."
    ),
    "no_match": (
        "--label_regex {label_regex} finds no label in the keys of {images}: {examples}. It is searched in the key with a "
        "slash before it (/cat/1.jpg), and its label must not be empty. Change it, or give a narrower glob "
        "(--input 'ROOT/**/*_*.jpg')."
    ),
    "no_label": (
        "{images} {have} no label in the table, or an empty one: {examples}. Fill the cells in, or leave these images out of "
        "--input."
    ),
    **TABLE_FAULTS,
    **SPLIT_FAULTS,
}


FOLDER_FAULTS = {
    "no_images": (
        "{folders} {hold} files, but not one image: {examples}. A class or a split needs images. Move such folders out of the "
        "input, hide them with a dot before the name, or give a glob (--input 'ROOT/*/*.jpg')."
    ),
    "linked_folder": (
        "{links} {stand} where a class folder should be: {examples}. Links to folders are not followed. Put the "
        "real folders there, give what they lead to as --input, hide the links with a dot before the name, or give a glob "
        "(--input 'ROOT/*/*.jpg')."
    ),
}


class Labelled(NamedTuple):
    """Split and labels of an image.

    ``labels``: one in a dataset of one class per image. ``fault``: why it has none, a key of
    ``FAULTS`` or ``DROPPED``; then the split is empty.
    """

    split: str
    labels: tuple[str, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Labeller:
    """How images get their split and labels. ``options`` make it, by ``labeller``.

    ``depth``: which folder is the class, behind that of the split. ``multi``: an image has any
    number of labels. ``class_map``: class of each name that is found, "" to drop it; others are
    their own class.
    """

    splits: SplitRule
    label_from: LabelFrom = "folders"
    depth: int = 1
    multi: bool = False
    class_map: Mapping[str, str] = field(default_factory=dict)

    @property
    def class_depth(self) -> int:
        """Depth of the folders below a root that are splits and classes; 0 if there are none."""
        return self.splits.by_folders + (self.depth if self.label_from == "folders" else 0)

    def label(self, key: bytes, row: bytes) -> Labelled:
        """Split and labels of an image by its key and its table's row."""
        labels, fault = self.labels_or_fault(key, row)
        if fault:
            return Labelled("", (), fault)
        split, fault = self.splits.split_or_fault(key, row, labels)
        return Labelled(split, () if fault else labels, fault)

    def labels_or_fault(self, key: bytes, row: bytes) -> tuple[tuple[str, ...], str]:
        """(labels, "") of an image, or ((), fault)."""
        fault = self._fault_of_folders(key)
        if not fault and self.label_from in ("regex", "table"):
            names = labels_of_row(row) if row else ()
            if not all(names) or (len(names) != 1 and not self.multi):
                fault = "no_match" if self.label_from == "regex" else "no_label"
        if fault:
            return (), fault
        labels = self.labels_of(key, row)
        dropped = self.class_map and not labels and not self.multi
        return labels, DROPPED if dropped else ""

    def _fault_of_folders(self, key: bytes) -> str:
        """Why the folders of a key give no split or no class; empty if they do."""
        if self.label_from != "folders":
            outside = self.splits.by_folders and not (b"/" in key and split_of_folder(key))
            return "no_split_folder" if outside else ""
        depth = self.class_depth
        folders = key.split(b"/", depth)
        if self.splits.by_folders and not split_of_folder(key):
            return "no_split"
        if len(folders) <= depth or not folders[-2]:
            return "too_shallow" if self.depth > 1 else "no_split" if self.splits.by_folders else "no_class"
        try:
            folders[-2].decode()
        except UnicodeDecodeError:
            return "class_not_utf8"
        return ""

    def names_of(self, key: bytes, row: bytes) -> tuple[str, ...]:
        """Names that are found for an image without a fault, before ``--class_map``."""
        if self.label_from == "folders":
            return (key.split(b"/", self.class_depth)[-2].decode(),)
        return () if self.label_from == "none" else labels_of_row(row)

    def labels_of(self, key: bytes, row: bytes) -> tuple[str, ...]:
        """Labels of an image that ``label`` has found to be without a fault; each is there once."""
        names = self.names_of(key, row)
        if self.class_map:
            names = tuple(label for name in names if (label := self.class_map.get(name, name)))
        return names if len(names) < 2 else tuple(dict.fromkeys(names))


@functools.lru_cache(maxsize=8)
def labeller(options: BuildOptions) -> Labeller:
    """The labeller of a build, still without the cuts of ``--stratify``."""
    class_map = dict(options.class_map or ())
    return Labeller(split_rule(options), options.label_from, options.label_depth, options.multi_label, class_map)
