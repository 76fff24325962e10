"""One run's configuration, checked when it is made.

Every error that the arguments alone can show is raised here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.pipeline.config.engine import Engine
from shardfeed.transforms.images.limits import MAX_OUTPUT_PIXELS
from shardfeed.transforms.inputs.labels import parse_splits
from shardfeed.transforms.inputs.roots import InputRoot, parse_inputs
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.verdict import RejectLimit

MAX_SIDE = 8_192  # pixels; a stored image has at most 4 Mpx, and a side above this leaves the other below 512


@dataclass(frozen=True)
class BuildConfig:
    """A build: its input, its output, what it makes and how it runs.

    ``options`` say what it makes. Only they are in the fingerprint.
    """

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
    roots: tuple[InputRoot, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Checks and normalises; the errors say what is allowed."""
        set_ = object.__setattr__  # the dataclass is frozen for everyone else
        set_(self, "output", _check_output(self.output))
        depth = 2 if parse_splits(self.options.splits).by_folders else 1
        set_(self, "roots", parse_inputs(list(self.inputs), class_depth=depth))
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
    """Beam's graph, logs and run.json hold text. Names below the input are bytes: any will do."""
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
        if inside or (root.url + "/").startswith(output.rstrip("/") + "/"):
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
    if not -(2**63) <= options.seed < 2**63:
        raise UsageError(f"--seed {options.seed}: allowed are signed 64-bit integers.")
    if options.shard_bytes < 1:
        raise UsageError(f"--shard_bytes {options.shard_bytes}: give at least 1 byte; 100MB is usual.")
