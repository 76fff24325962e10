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
from shardfeed.pipeline.config.labels import check_labels
from shardfeed.pipeline.config.table import below_roots
from shardfeed.pipeline.config.values import ALLOWED, MAX_TIMEOUT, MOST_FILE_BYTES, MOST_PIXELS
from shardfeed.transforms.encode.threads import IMAGE_TIMEOUT
from shardfeed.transforms.images.limits import MAX_OUTPUT_PIXELS, Limits
from shardfeed.transforms.inputs.labels import labeller
from shardfeed.transforms.inputs.roots import InputRoot, parse_inputs
from shardfeed.transforms.metadata.table import MetadataTable
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.limit import Limit

MAX_SIDE = 8_192  # pixels; a stored image has at most 4 Mpx, and a side above this leaves the other below 512


@dataclass(frozen=True)
class BuildConfig:
    """A build: its input, its output, what it makes and how it runs.

    ``options`` say what it makes. Only they are in the fingerprint.
    """

    inputs: tuple[str, ...]
    output: str
    options: BuildOptions = field(default_factory=BuildOptions)
    max_rejected: Limit = field(default_factory=Limit)
    fail_on_duplicates: bool = False
    table: MetadataTable | None = None
    max_unmatched: Limit = field(default_factory=lambda: Limit(count=0))
    threads: int | None = None  # None leaves it to the machine that encodes
    image_timeout: int = IMAGE_TIMEOUT  # seconds of a codec's work
    engine: Engine = field(default_factory=Engine)
    keep_parts: bool = False
    discard_incomplete: bool = False
    trust_manifest: bool = False
    cross_region: bool = False
    list_root: str | None = None
    retry_rejects: str | None = None
    roots: tuple[InputRoot, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Checks and normalises; the errors say what is allowed."""
        set_ = object.__setattr__  # the dataclass is frozen for everyone else
        set_(self, "output", _check_output(self.output))
        check_labels(self.options)
        depth = labeller(self.options).class_depth
        set_(self, "roots", parse_inputs(list(self.inputs), class_depth=depth, list_root=self.list_root))
        if self.table is not None:
            set_(self, "table", below_roots(self.table, [root.url for root in self.roots]))
            for table in (self.table, *self.table.more):
                if self.engine.is_dataflow and not storage.is_remote(table.url):
                    raise UsageError(
                        f"--metadata {clip(table.url)}: Dataflow's workers cannot read this machine's files. Copy the table to "
                        "gs://bucket/folder."
                    )
        if self.threads is not None and not 1 <= self.threads <= 512:
            raise UsageError(f"--threads {self.threads}: {ALLOWED['threads']}")
        if not 1 <= self.image_timeout <= MAX_TIMEOUT:
            raise UsageError(f"--image_timeout {self.image_timeout}: {ALLOWED['image_timeout']}")
        for use, url in (*(("input", root.url) for root in self.roots), ("output", self.output)):
            storage.check_address(url, use)
            _check_utf8(url, use)
        for found in (found for root in self.roots for found in root.lists):
            storage.check_address(found.url, "input")
            _check_utf8(found.url, "input")
        if self.retry_rejects is not None:
            set_(self, "retry_rejects", _check_previous(self.retry_rejects, self.output, self.engine))
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


def _check_previous(url: str, output: str, engine: Engine) -> str:
    storage.check_address(url, "dataset")
    url = storage.normal_url(url) if storage.is_remote(url) else os.path.realpath(os.path.expanduser(url))
    if url == output:
        raise UsageError(
            f"--retry_rejects {clip(url)} is --output too: a dataset is never changed. Give a new --output; the old one can be "
            "removed afterwards."
        )
    if engine.is_dataflow and not storage.is_remote(url):
        raise UsageError(
            f"--retry_rejects {clip(url)} is a folder of this machine, which Dataflow's workers cannot see. Copy it to a bucket."
        )
    return url


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
        if root.lists:  # only what they name is an input
            continue
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
            "are allowed, such as 2048x2048."
        )
    _check_limits(image.limits)
    if image.resize in ("shortest", "longest") and image.height != image.width:
        raise UsageError(
            f"--resize {image.resize} takes one number for --image_size (the length of that side), not "
            f"{image.height}x{image.width}."
        )
    if not 1 <= image.quality <= 100:
        raise UsageError(f"--quality {image.quality}: {ALLOWED['quality']}")
    if not -(2**63) <= options.seed < 2**63:
        raise UsageError(f"--seed {options.seed}: {ALLOWED['seed']}")
    if options.shard_bytes < 1:
        raise UsageError(f"--shard_bytes {options.shard_bytes}: give at least 1 byte; 100MB is usual.")


def _check_limits(limits: Limits) -> None:
    if not 1 <= limits.min_size <= 65_535:
        raise UsageError(f"--min_size {limits.min_size}: {ALLOWED['min_size']}")
    if not 1 <= limits.max_pixels <= MOST_PIXELS:
        raise UsageError(f"--max_pixels {limits.max_pixels}: {ALLOWED['max_pixels']}")
    if not 1 <= limits.max_file_bytes <= MOST_FILE_BYTES:
        raise UsageError(f"--max_file_bytes {limits.max_file_bytes}: {ALLOWED['max_file_bytes']}")
    if not 1 <= limits.max_aspect <= 65_535:  # false for nan too
        raise UsageError(f"--max_aspect {limits.max_aspect}: {ALLOWED['max_aspect']}")
    if limits.min_size**2 > limits.max_pixels:
        raise UsageError(
            f"--min_size {limits.min_size} and --max_pixels {limits.max_pixels} leave no image: a square of that size has more "
            "pixels. Lower the one or raise the other."
        )
