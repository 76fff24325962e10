"""Bytes, durations, counts and lines of JSON as people read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def human_bytes(size: float) -> str:
    """``12.3 MB``, decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def duration(seconds: float) -> str:
    """``42 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def plural(count: int, noun: str, ending: str = "s") -> str:
    """``1 shard``, ``2,000 shards``."""
    return f"{count:,} {noun}{ending * (count != 1)}"


def largest_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts above 0 with their names, the largest first; equal ones by name."""
    return sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))


def some_of(texts: Sequence[str], most: int) -> str:
    """``cat, dog and 7 more``: the first texts, at most so many, and the number of the others."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def by_count(counts: Mapping[str, int]) -> str:
    """``TRUNCATED 12, FORMAT 3``: counts by name, the largest first."""
    return ", ".join(f"{name} {count:,}" for name, count in largest_first(counts))


def printable_json(line: Mapping[str, Any], *, sort_keys: bool = False) -> str:
    """A line of JSON, with control characters and marks of writing direction as escapes."""
    text = json.dumps(line, ensure_ascii=False, sort_keys=sort_keys)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
