"""The flags that say where labels come from, and which classes they become."""

from __future__ import annotations

import csv

from shardfeed.errors import UsageError, clip
from shardfeed.pipeline.config.values import ALLOWED
from shardfeed.transforms.inputs.key_regex import check_regex, group_column
from shardfeed.transforms.options import BuildOptions

_FORM = "Give a UTF-8 CSV file with the header from,to and a line per name; an empty to drops the images of a class."
_HEADER = ["from", "to"]


def check_labels(options: BuildOptions) -> None:
    """Checks the flags of labels against each other.

    Raises:
        UsageError: flags that do not go together, or a value that cannot be.
    """
    source, regex = options.label_from, options.label_regex
    if options.label_depth < 1:
        raise UsageError(f"--label_depth {options.label_depth}: {ALLOWED['label_depth']}")
    if options.label_depth > 1 and source != "folders":
        raise UsageError(f"--label_depth goes with --label_from folders, not {source}. Leave one of them out.")
    if (source == "regex") != (regex is not None):
        raise UsageError(
            "--label_from regex and --label_regex need each other. "
            r"Example: --label_from regex --label_regex '/(?P<label>[a-z]+)_\d+\.'"
        )
    if regex is not None:
        check_regex(regex, "--label_regex", "label")
    if options.group_by is not None and group_column(options.group_by) is None:
        check_regex(options.group_by, "--group_by", "group")
    if source == "none":
        for name, value in (("class_list", options.class_list), ("class_map", options.class_map)):
            if value is not None:
                raise UsageError(f"--{name} goes with labels, and --label_from none gives none. Leave one of them out.")


def read_class_map(path: str) -> tuple[tuple[str, str], ...]:
    """(name, class) pairs of a CSV file, sorted; the class is "" if the images are to be dropped.

    Raises:
        UsageError: no such file, not of this form, a name twice, or a class that is mapped again.
    """
    said = f"--class_map {clip(path)}"
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:  # Excel begins files with a byte order mark
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{said} cannot be read: {why}. {_FORM}") from None
    if not lines or lines[0][1] != _HEADER:
        first = ",".join(lines[0][1]) if lines else ""
        raise UsageError(f"{said} begins with {clip(first)!r} and not with from,to. {_FORM}")
    pairs: dict[str, str] = {}
    for number, row in lines[1:]:
        if len(row) != 2 or not row[0]:
            raise UsageError(
                f"{said}, line {number}: {clip(','.join(row))!r} is not a name, a comma and a class. {_FORM}"
            )
        if row[0] in pairs:
            raise UsageError(f"{said}, line {number}: {clip(row[0])} is mapped twice. Map each name once.")
        pairs[row[0]] = row[1]
    if not pairs:
        raise UsageError(f"{said} maps no class. {_FORM}")
    for name, to in pairs.items():
        if pairs.get(to, to) != to:
            again = clip(pairs[to]) or "nothing"
            raise UsageError(
                f"{said} maps {clip(name)} to {clip(to)}, and {clip(to)} to {again}. The map is applied once: give each name the "
                "class that it has in the end."
            )
    return tuple(sorted(pairs.items()))
