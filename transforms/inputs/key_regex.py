"""``--label_regex`` and ``--group_by``: the label, or the group, is a piece of the key, which a
regular expression finds.

Arrow's RE2 searches many keys at a time. Its time grows linearly with a key, whatever the
expression: it knows neither backreferences nor looking around, and takes no expression that needs
them. pyarrow is imported when it is asked, not before: few builds have such a flag.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardfeed.errors import UsageError, clip
from shardfeed.transforms.elements import pack_ref, unpack_refs
from shardfeed.transforms.metadata.row import Row, pack_table_row, unpack_table_row
from shardfeed.transforms.options import BuildOptions

_EXAMPLES = {
    "label": r"Example: --label_regex '/(?P<label>[a-z]+)_\d+\.'",
    "group": "Example: --group_by '/(?P<group>patient_[0-9]+)_', or a column of the table: column:patient",
}


def check_regex(regex: str, flag: str, name: str) -> None:
    """Checks the expression of a flag; ``name``: of its group, "label" or "group".

    Raises:
        UsageError: not an expression of RE2, or one without the group.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    said, example = f"{flag} {clip(regex)}", _EXAMPLES[name]
    try:
        found = pc.extract_regex(pa.array([""]), regex)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        if "unnamed groups" in str(error):
            raise UsageError(
                f"{said}: a group has no name. Write (?:…) for a group that is not the {name}. {example}"
            ) from None
        raise UsageError(
            f"{said}: {clip(error)}. Allowed is the syntax of RE2, which has neither backreferences (\\1) nor looking around "
            f"((?=…), (?<=…)). {example}"
        ) from None
    if found.type.get_field_index(name) < 0:
        raise UsageError(f"{said} has not exactly one group (?P<{name}>…), which is the {name}. {example}")


def add_found(refs: bytes, options: BuildOptions) -> bytes:
    """Packed references, each with the label and the group in its row that are found in its key.

    Without expressions they stay as they are. What is not found is empty.
    """
    label, group = options.label_regex, options.group_by if group_column(options.group_by) is None else None
    if label is None and group is None:
        return refs
    found = list(unpack_refs(refs))
    keys = [ref.key for ref in found]
    labels = [None] * len(keys) if label is None else _search(keys, label, "label")
    groups = [None] * len(keys) if group is None else _search(keys, group, "group")
    pieces = []
    for ref, one, other in zip(found, labels, groups, strict=True):
        row = unpack_table_row(ref.row) if ref.row else Row()
        if label is not None:
            row = row._replace(labels=(one,) if one else ())
        if group is not None:
            row = row._replace(group=other or "")
        pieces.append(pack_ref(ref._replace(row=pack_table_row(row))))
    return b"".join(pieces)


def group_column(group_by: str | None) -> str | None:
    """The table's column that ``--group_by`` names; None: an expression, or nothing.

    Raises:
        UsageError: ``column:`` without a name.
    """
    if group_by is None or not group_by.startswith("column:"):
        return None
    if group_by == "column:":
        raise UsageError("--group_by column: names no column. Example: --group_by column:patient")
    return group_by.removeprefix("column:")


def _search(keys: Sequence[bytes], regex: str, name: str) -> list[str | None]:
    """What the group has found in each key, with a slash before it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.array(["/" + key.decode("utf-8", "replace") for key in keys], pa.string())
    pieces: list[str | None] = pc.extract_regex(texts, regex).field(name).to_pylist()
    return [None if piece is None or "\N{REPLACEMENT CHARACTER}" in piece else piece for piece in pieces]
