"""Hits of ``find`` as lines: for people aligned, without control characters; for programs JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.errors import clip
from shardfeed.inspection.condition import finite
from shardfeed.inspection.find import RecordRow
from shardfeed.words import plural, printable_json

_LABEL_WIDTH = 24


def json_line(row: RecordRow) -> str:
    """One JSON object with all columns. JSON has no NaN and no infinity: they are null."""
    return printable_json({name: finite(value) for name, value in row.items()}, sort_keys=True)


def line_of(dataset: DatasetInfo) -> Callable[[RecordRow], str]:
    """A function that gives the line of a hit: split and number, shard, label, size, bytes, key."""
    manifest = dataset.manifest
    split_width = max(map(len, manifest.splits), default=0)
    number_width = len(str(max((split.records for split in manifest.splits.values()), default=0)))
    file_width = max((len(shard.file) for split in manifest.splits.values() for shard in split.shards[:1]), default=0)
    label_width = max((len(clip(name, _LABEL_WIDTH)) for name in manifest.classes), default=0)
    if manifest.label_kind == "multi":
        label_width = _LABEL_WIDTH

    def line(row: RecordRow) -> str:
        place = f"{row['split']:<{split_width}} {row['number']:>{number_width}}  {row['file']:<{file_width}}"
        labels = row["label"] if row["label"] is not None else ", ".join(row.get("labels", ()))
        label, size = clip(labels, _LABEL_WIDTH), f"{row['height']}x{row['width']}"
        return f"  {place}  {label:<{label_width}} {size:>9}  {row['bytes']:>9,} B  {clip(row['key'], 80)}"

    return line


def last_line(
    dataset: DatasetInfo, splits: Sequence[SplitInfo], count: int, listed: int, first: RecordRow | None
) -> str:
    """How many of the records of ``splits`` are hits, and how to read the ``first`` of them."""
    text = f"{count:,} of {sum(split.num_records for split in splits):,} records"
    if count > listed:
        text += f"; {plural(listed, 'record')} listed (--limit 0 lists all)"
    if first is None:
        return f"{text}."
    return f"{text}. The first: shardfeed.records({dataset.url!r}, {first['split']!r})[{first['number']}]"
