"""One run's configuration, checked when it is made: every error that the arguments alone can show is raised here."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import get_args

from pipeline.engine import Engine
from shardfeed import storage
from shardfeed.errors import UsageError, clip
from transforms.images.limits import MAX_OUTPUT_PIXELS
from transforms.images.options import Channels, Format, ResizeMode, Resizer
from transforms.input_roots import InputRoot, parse_inputs
from transforms.labels import FOLDERS, parse_splits
from transforms.options import BuildOptions
from transforms.reconciling import RejectLimit

MAX_SIDE = 8_192  # pixels; a stored image has at most 4 Mpx, and a side above this leaves the other below 512
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class BuildConfig:
    """A build: where from, where to, what (``options``, in the fingerprint) and how (the rest, not in it)."""

    inputs: tuple[str, ...]
    output: str
    options: BuildOptions = field(default_factory=BuildOptions)
    max_rejected: RejectLimit = field(default_factory=RejectLimit)
    threads: int | None = None  # None leaves it to the machine that encodes
    engine: Engine = field(default_factory=Engine)
    keep_parts: bool = False
    discard_incomplete: bool = False
    trust_manifest: bool = False
    cross_region: bool = False
    on_interrupt: str | None = None  # cancel or detach; None asks on a terminal, and else detaches
    roots: tuple[InputRoot, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Checks and normalises; see the errors for what is allowed."""
        set_ = object.__setattr__  # the dataclass is frozen for everyone else
        set_(self, "output", _check_output(self.output))
        class_depth = 2 if self.options.splits == FOLDERS else 1
        set_(self, "roots", parse_inputs(list(self.inputs), class_depth=class_depth))
        if self.threads is not None and not 1 <= self.threads <= 512:
            raise UsageError(
                f"--threads {self.threads}: give 1 to 512, or leave it out for one a core (at least 8 from a bucket)."
            )
        for use, url in (*(("input", root.url) for root in self.roots), ("output", self.output)):
            storage.check_address(url, use)
            _check_utf8(url, use)
        _check_apart(self.roots, self.output)
        _check_options(self.options)
        self.engine.check()
        if self.on_interrupt == "detach":
            self.engine.check_leaving("--on_interrupt detach")


def _check_output(output: str) -> str:
    if not output:
        raise UsageError("--output is empty. Give a folder (out/) or gs://bucket/folder.")
    if re.search(r"[*?\[\]]", output):
        raise UsageError(
            f"--output {clip(output)} has characters that file globs use (* ? [ ]); engines and readers would misread it. "
            "Give a plain path."
        )
    if storage.is_remote(output):
        return storage.normal_url(output)
    return os.path.realpath(os.path.expanduser(output))


def _check_utf8(url: str, use: str) -> None:
    """Beam's graph, logs and run.json hold text. Names below the input are bytes, and may be any."""
    try:
        url.encode()
    except UnicodeEncodeError:
        path, encoding = os.fsencode(url), sys.getfilesystemencoding()
        if encoding == "utf-8":
            raise UsageError(f"--{use} {clip(path)} is not UTF-8. Rename the folder.") from None
        raise UsageError(
            f"--{use} {clip(path)}: Python reads names here as {encoding}, which has no such characters. Set PYTHONUTF8=1, then "
            "run the command again."
        ) from None


def _check_apart(roots: Sequence[InputRoot], output: str) -> None:
    for root in roots:
        inside = (output + "/").startswith(root.url.rstrip("/") + "/")
        if inside or (root.url + "/").startswith(output + "/"):
            where = "is" if output == root.url else "lies inside" if inside else "contains"
            raise UsageError(
                f"--output {clip(output)} {where} --input {clip(root.url)}: the next build would list its own files, and the "
                "input is never written to. Give an --output outside of it."
            )


def _check_options(options: BuildOptions) -> None:
    image = options.image
    for side in (image.height, image.width):
        if not 1 <= side <= MAX_SIDE:
            raise UsageError(
                f"--image_size: a side of {side} pixels; allowed are 1 to {MAX_SIDE:,}. Example: --image_size 224"
            )
    if image.height * image.width > MAX_OUTPUT_PIXELS:
        raise UsageError(
            f"--image_size {image.height}x{image.width} is {image.height * image.width:,} pixels; at most {MAX_OUTPUT_PIXELS:,} "
            "are allowed."
        )
    if image.resize in ("shortest", "longest") and image.height != image.width:
        raise UsageError(
            f"--resize {image.resize} takes one number for --image_size (the length of that side), not "
            f"{image.height}x{image.width}."
        )
    if not 1 <= image.quality <= 100:
        raise UsageError(f"--quality {image.quality}: allowed are 1 to 100 (95 by default).")
    for name, value, kind in (
        ("resize", image.resize, ResizeMode),
        ("channels", image.channels, Channels),
        ("image_format", image.format, Format),
        ("resizer", image.resizer, Resizer),
    ):
        if value not in get_args(kind):
            raise UsageError(f"--{name} {clip(value)}: allowed are {', '.join(get_args(kind))}.")
    if not -(2**63) <= options.seed < 2**63:
        raise UsageError(f"--seed {options.seed}: allowed are signed 64-bit integers.")
    if options.shard_bytes < 1:
        raise UsageError(f"--shard_bytes {options.shard_bytes}: give at least 1 byte; 100MB is usual.")
    if options.splits != FOLDERS:
        parse_splits(options.splits)


def parse_image_size(text: str) -> tuple[int, int]:
    """(height, width) of ``224`` or ``224x320`` (height first).

    Raises:
        UsageError: another form.
    """
    match = re.fullmatch(r"0*([0-9]{1,9})(?:[xX]0*([0-9]{1,9}))?", text)
    if not match:
        raise UsageError(f"--image_size {clip(text)}: give one number (224) or HEIGHTxWIDTH (224x320), in pixels.")
    return int(match[1]), int(match[2] or match[1])


def parse_bytes(text: str) -> int:
    """Bytes in ``100MB``, ``64MiB`` or ``1000000``; a byte that is begun counts.

    Raises:
        UsageError: another form.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)", text)
    if not match or match[2].upper() not in _UNITS:
        raise UsageError(
            f"--shard_bytes {clip(text)}: give bytes with an optional unit (KB, MB, GB, KiB, MiB, GiB): 100MB."
        )
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
    """Classes of a text file, one a line, in label order; empty lines are skipped.

    Raises:
        UsageError: no such file, not UTF-8, no classes, or a class twice.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:  # editors on Windows begin files with a byte order mark
            names = [line.rstrip("\r\n") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--class_list {clip(path)} cannot be read: {error}. Give a UTF-8 text file, one class a line."
        ) from None
    names = [_unescaped(name, path) for name in names if name]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if not names or twice:
        what = f"names {clip(', '.join(twice))} twice" if twice else "names no classes"
        raise UsageError(f"--class_list {clip(path)} {what}. Give one class a line, each once, in label order.")
    return tuple(names)


def _unescaped(line: str, path: str) -> str:
    """A line of a class list, as a dataset's own ``classes.txt`` writes it: a backslash begins one of JSON's escapes."""
    if "\\" not in line:
        return line
    try:
        return str(json.loads('"' + line.replace('"', '\\"') + '"'))
    except ValueError:
        raise UsageError(
            f"--class_list {clip(path)}: {clip(line)} is not a class. Write a backslash in a name as two."
        ) from None
