"""A summary of a dataset: what people ask first, on one screen, from the manifest alone."""

from __future__ import annotations

import json
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence

from shardfeed.dataset.info import DatasetInfo
from shardfeed.errors import clip
from shardfeed.format.columns import as_flag
from shardfeed.format.manifest import Manifest
from shardfeed.words import by_count, human_bytes, plural

_CLASS_ROWS = 20  # rows of classes that a screen has room for
_CLASS_WIDTH = 32  # columns of a class name
_SPLIT_COLUMNS = 5  # splits beside each other
_WIDTH = 100  # columns of wrapped lines


def dataset_summary(dataset: DatasetInfo) -> str:
    """Images, totals, shards, classes and configuration as text, without control characters.

    If there are more than 20 classes, the ten largest and the ten smallest are shown.
    """
    manifest = dataset.manifest
    sections = [_head(dataset), _splits(manifest), _classes(manifest), _tail(manifest)]
    return "\n\n".join("\n".join(lines) for lines in sections)


def _head(dataset: DatasetInfo) -> list[str]:
    manifest, image = dataset.manifest, dataset.manifest.image
    size = f"{image.height} × {image.width}" if image.height and image.width else "varying size"
    totals = (
        f"{manifest.listed:,} listed = {manifest.written:,} written + {_named('rejected', manifest.rejected)} + "
        f"{_named('skipped', manifest.skipped)}"
    )
    lines = [
        clip(dataset.url),
        f"  images       {size} × {image.channels} {'gray' if image.channels == 1 else 'rgb'}, {image.format}",
        f"  pixels       mean {_channels(image.mean)}, std {_channels(image.std)}",
        *_wrapped("totals", totals),
    ]
    if manifest.fixes:
        lines += _wrapped("fixes", _reasons(manifest.fixes))
    if manifest.columns:
        lines += _wrapped("columns", ", ".join(clip(as_flag(column)) for column in manifest.columns))
    return [*lines, f"  fingerprint  {clip(manifest.fingerprint)}"]


def _splits(manifest: Manifest) -> list[str]:
    rows: list[Sequence[str]] = [("split", "records", "shards", "bytes", "min", "mean", "max")]
    for name, split in manifest.splits.items():
        sizes = [shard.bytes for shard in split.shards] or [0]
        figures = (split.bytes, min(sizes), split.bytes // len(sizes), max(sizes))
        rows.append((name, f"{split.records:,}", f"{len(split.shards):,}", *map(human_bytes, figures)))
    return _table(rows)


def _classes(manifest: Manifest) -> list[str]:
    if manifest.label_kind == "none":
        return ["  no classes: the dataset was built without labels"]
    splits = list(manifest.splits.values())[:_SPLIT_COLUMNS]
    totals = [sum(split.class_counts[name] for split in manifest.splits.values()) for name in manifest.classes]
    rows: list[Sequence[str]] = []
    for index, name in enumerate(manifest.classes):
        counts = (f"{split.class_counts[name]:,}" for split in splits)
        rows.append((clip(name, _CLASS_WIDTH), str(index), *counts, f"{totals[index]:,}"))
    if (between := len(rows) - _CLASS_ROWS) > 0:
        largest = [rows[index] for index in sorted(range(len(rows)), key=lambda index: (-totals[index], index))]
        rest = (f"… {between:,} classes of sizes between …", *("" for _ in rows[0][1:]))
        rows = [*largest[: _CLASS_ROWS // 2], rest, *largest[-_CLASS_ROWS // 2 :]]
    rows.insert(0, ("class", "#", *list(manifest.splits)[:_SPLIT_COLUMNS], "all"))
    sums = (f"{split.records:,}" for split in splits)
    rows.append((plural(len(totals), "class", "es"), "", *sums, f"{manifest.written:,}"))
    note = ["  A record may have several classes, or none."] if manifest.label_kind == "multi" else []
    return _table(rows) + note


def _tail(manifest: Manifest) -> list[str]:
    config = ", ".join(
        f"{name} {clip(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)}"
        for name, value in sorted(manifest.config.items())
        if value is not None and name != "columns"
    )
    versions = ", ".join(f"{clip(name)} {clip(version)}" for name, version in sorted(manifest.versions.items()))
    return [*_wrapped("config", config), *_wrapped("versions", versions)]


def _named(what: str, counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return f"{total:,} {what} ({_reasons(counts)})" if total else f"0 {what}"


def _reasons(counts: Mapping[str, int]) -> str:
    return by_count({clip(name, _CLASS_WIDTH): count for name, count in counts.items()})


def _channels(values: Sequence[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def _wrapped(name: str, text: str) -> list[str]:
    first, rest = f"  {name:<13}", " " * 15
    return textwrap.wrap(text or "none", _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with aligned columns: the first to the left, the others to the right."""
    spans = [row for row in rows if any(row[1:])]  # a row of one cell does not widen its column
    widths = [max(_columns(row[i]) for row in spans) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0] + " " * (widths[0] - _columns(row[0]))]
        cells += [" " * (width - _columns(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _columns(text: str) -> int:
    """Columns of a terminal for ``text``: East Asian letters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) != 0 for letter in text)
