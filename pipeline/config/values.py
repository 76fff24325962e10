"""Values of flags that have a form of their own: numbers, sizes, counts, colours, class lists."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from shardfeed.errors import UsageError, clip
from shardfeed.transforms.encode.threads import IMAGE_TIMEOUT
from shardfeed.transforms.planning.limit import Limit

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MAX_TIMEOUT = 86_400  # seconds
MOST_PIXELS = 1 << 30  # of --max_pixels: 4 GiB as Pillow holds them
MOST_FILE_BYTES = 1 << 30  # of --max_file_bytes
ALLOWED = {
    "image_timeout": f"give 1 to {MAX_TIMEOUT:,} seconds ({IMAGE_TIMEOUT} by default).",
    "label_depth": "give the number of the folder that is the class, from 1 on. The first is the one below the root or, with "
    "--splits folders, below the split.",
    "max_aspect": "allowed are 1 to 65,535; 2 rejects what is more than twice as long as wide.",
    "max_file_bytes": "allowed are 1 byte to 1GiB.",
    "max_pixels": f"allowed are 1 to {MOST_PIXELS:,}. 64 Mpx is 67108864.",
    "min_size": "allowed are 1 to 65,535 pixels of the shorter side.",
    "quality": "allowed are 1 to 100 (95 by default).",
    "seed": "allowed are signed 64-bit integers.",
    "threads": "give 1 to 512, or leave it out for one per core (at least 8 from a bucket).",
}
"""What errors say of the flags that are numbers."""

_Number = TypeVar("_Number", int, float)


def number(flag: str, kind: type[_Number]) -> Callable[[str], _Number]:
    """What argparse reads a flag of ``ALLOWED`` with; the range is checked later."""

    def parse(text: str) -> _Number:
        try:
            return kind(text)
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{clip(text)!r} is no {what}; {ALLOWED[flag].rstrip('.')}") from None

    return parse


def parse_bytes(text: str, flag: str = "--shard_bytes", usual: str = "100MB") -> int:
    """Bytes in ``100MB``, ``64MiB`` or ``1000000``; fractions are rounded up.

    Raises:
        UsageError: another form.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)", text)
    if not match or match[2].upper() not in _UNITS:
        raise UsageError(f"{flag} {clip(text)}: give bytes with an optional unit (KB, MB, GB, KiB, MiB, GiB): {usual}.")
    return math.ceil(Fraction(match[1]) * _UNITS[match[2].upper()])


def parse_num_shards(text: str) -> int | tuple[tuple[str, int], ...]:
    """A count (``16``) or counts by split (``train=16,validation=2``).

    Raises:
        UsageError: another form, or a count below 1.
    """
    try:
        if "=" not in text:
            count: int | tuple[tuple[str, int], ...] = int(text)
            counts = [int(text)]
        else:
            pairs = sorted((name, int(value)) for name, value in (item.split("=") for item in text.split(",")))
            count, counts = tuple(pairs), [value for _, value in pairs]
            if len(dict(pairs)) < len(pairs) or not pairs[0][0]:  # a split twice, or without a name
                counts = [0]
    except ValueError:
        counts = [0]
    if min(counts) < 1 or max(counts) > 1_000_000:
        raise UsageError(
            f"--num_shards {clip(text)}: give 1 to 1,000,000 (16), or a count by split (train=16,validation=2)."
        )
    return count


def parse_rejected(text: str | None) -> Limit:
    """The limit in ``--max_rejected``: ``25`` or ``1%``; None: 1 %, at least 10 images.

    Raises:
        UsageError: neither a count nor a percentage from 0 to 100.
    """
    if text is None:
        return Limit()
    return _limit(text, "--max_rejected", "a number of images (25) or a share of them (1%)")


def parse_unmatched(text: str | None) -> Limit:
    """The limit in ``--max_unmatched``: ``25`` or ``1%``; None: 0.

    Raises:
        UsageError: neither a count nor a percentage from 0 to 100.
    """
    return Limit(count=0) if text is None else _limit(text, "--max_unmatched", "a number (25) or a share (1%)")


def _limit(text: str, flag: str, allowed: str) -> Limit:
    if re.fullmatch(r"([0-9]*\.)?[0-9]+%", text) and (share := Fraction(text[:-1]) / 100) <= 1:
        return Limit(share=share, floor=0)
    if re.fullmatch(r"[0-9]{1,18}", text):
        return Limit(count=int(text))
    raise UsageError(f"{flag} {clip(text)}: give {allowed}, 0% to 100%.")


def parse_colour(text: str) -> tuple[int, int, int]:
    """RGB of ``#rrggbb``, ``black``, ``gray`` or ``white``.

    Raises:
        UsageError: another form.
    """
    named = {"black": "#000000", "gray": "#808080", "white": "#ffffff"}
    match = re.fullmatch(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})", named.get(text, text))
    if not match:
        raise UsageError(f"--background {clip(text)}: give #rrggbb, black, gray or white.")
    return int(match[1], 16), int(match[2], 16), int(match[3], 16)


def read_class_list(path: str) -> tuple[str, ...]:
    """Classes of a text file, one per line, in label order; empty lines are skipped.

    Raises:
        UsageError: no such file, not UTF-8, no classes, or a class twice.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:  # editors on Windows begin files with a byte order mark
            names = [line.rstrip("\r\n") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"--class_list {clip(path)} cannot be read: {why}. Give a UTF-8 text file, one class per line."
        ) from None
    names = [_unescaped(name, path) for name in names if name]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if not names or twice:
        what = f"names {clip(', '.join(twice))} twice" if twice else "names no classes"
        raise UsageError(f"--class_list {clip(path)} {what}. Give one class per line, each once, in label order.")
    return tuple(names)


def _unescaped(line: str, path: str) -> str:
    """A line as a dataset's own ``classes.txt`` has it: a backslash begins an escape of JSON's."""
    if "\\" not in line:
        return line
    try:
        return str(json.loads('"' + line.replace('"', '\\"') + '"'))
    except ValueError:
        raise UsageError(
            f"--class_list {clip(path)}: {clip(line)} is not a class. Write a backslash in a name as two."
        ) from None
