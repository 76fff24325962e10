"""One run's configuration, checked when it is made: every error that the arguments alone can show is raised here."""

from __future__ import annotations

import itertools
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

from pipeline.detaching import check_detaching
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
_IN_PROCESS = frozenset({"directrunner", "switchingdirectrunner", "fnapirunner"})
_RUNNERS = (
    "DirectRunner",
    "FnApiRunner",
    "PrismRunner",
    "PortableRunner",
    "FlinkRunner",
    "SparkRunner",
    "DataflowRunner",
)

# Where an engine may run the workers' code, and the configuration that it cannot do without.
_ENVIRONMENTS = {
    "DOCKER": "",
    "PROCESS": '\'{"command": "/opt/beam/boot"}\', the program that starts a worker',
    "EXTERNAL": "HOST:PORT, where the worker pool listens",
    "LOOPBACK": "",
}


@dataclass(frozen=True)
class BuildConfig:
    """A build: where from, where to, what (``options``, in the fingerprint) and how (the rest, not in it)."""

    inputs: tuple[str, ...]
    output: str
    options: BuildOptions = field(default_factory=BuildOptions)
    max_rejected: RejectLimit = field(default_factory=RejectLimit)
    threads: int | None = None  # None leaves it to the machine that encodes
    runner: str | None = None
    beam_args: tuple[str, ...] = ()
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
        _check_runner(self.runner)
        _check_cloud(self)
        _check_engine(self)
        check_detaching(self)

    @property
    def engine(self) -> str:
        """The runner as Beam shall know it: Beam's "DirectRunner" would look for a Go binary on the network first."""
        if self.runner is None:
            return "FnApiRunner"
        package, name = _cut(self.runner)
        if package not in ("", "apache_beam"):
            return self.runner
        if name in _IN_PROCESS:
            return "FnApiRunner"
        return "PrismRunner" if name == "prismrunner" else self.runner

    @property
    def in_process(self) -> bool:
        """Whether the graph runs in this very process."""
        return self.engine == "FnApiRunner" and self.beam_arg("direct_running_mode") != "multi_processing"

    @property
    def encodes_here(self) -> bool:
        """Whether images are encoded in this very process: the graph runs in it, or an engine's worker is a thread of it."""
        engine = self.engine.rpartition(".")[2].lower()
        if engine in ("fnapirunner", "dataflowrunner"):
            return self.in_process
        if any("use_loopback_process_worker" in arg for arg in self.beam_args):
            return False
        default = "LOOPBACK" if engine == "prismrunner" else ""  # other engines' depends on where they run
        return (self.beam_arg("environment_type") or default) == "LOOPBACK"

    def beam_arg(self, name: str) -> str | None:
        """The last value of one of Beam's flags among ``beam_args``; None where it is not given."""
        flag, value = f"--{name}", None
        for arg, after in itertools.zip_longest(self.beam_args, self.beam_args[1:]):
            if arg == flag:
                value = after
            elif arg.startswith(flag + "="):
                value = arg[len(flag) + 1 :]
        return value


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


def _check_runner(runner: str | None) -> None:
    """Of Beam's runners these alone: some look for Prism on the network by themselves, as its runner for tests does.

    Nor Beam's short forms (``dataflow``): everything here that looks at an engine's name would take them for another.
    """
    if runner is None:
        return
    instead = f"Use {', '.join(_RUNNERS[:-1])} or {_RUNNERS[-1]}"
    if "dask" in runner.lower():
        raise UsageError(
            f"--runner {clip(runner)}: Beam's Dask runner gives wrong results for graphs with side branches (it runs only the "
            f"last one, and exits 0). {instead}."
        )
    package, name = _cut(runner)
    known = _IN_PROCESS.union(map(str.lower, _RUNNERS))
    if package in ("", "apache_beam") and name not in known:
        raise UsageError(
            f"--runner {clip(runner)}: Beam has no such runner, or none for builds. {instead}; or another package's, by its full "
            "name (my_package.MyRunner)."
        )


def _cut(runner: str) -> tuple[str, str]:
    """(top package or empty, name of the class in small letters: Beam ignores their size)."""
    package, _, name = runner.rpartition(".")
    return package.partition(".")[0], name.lower()


def _check_engine(config: BuildConfig) -> None:
    """What would look like an engine that was lost, and no rerun would help."""
    engine = config.engine.rpartition(".")[2].lower()
    prism = config.beam_arg("prism_location")
    if engine == "prismrunner" and prism is not None and "://" not in prism and not os.path.isfile(prism):
        wrong = "is not a file" if os.path.exists(prism) else "does not exist"
        raise UsageError(
            f"--prism_location {clip(prism)} {wrong}. Build Prism with make engines (.engines/), or name where it is."
        )
    endpoint = config.beam_arg("job_endpoint")
    if engine == "portablerunner" and endpoint is None:
        raise UsageError(
            "--runner PortableRunner also needs --job_endpoint HOST:PORT, where the engine's job service listens "
            "(docs/engines.md has examples)."
        )
    if endpoint not in (None, "embed") and not re.search(r":\d+$", endpoint):
        raise UsageError(
            f"--job_endpoint {clip(endpoint)} names no port. Give HOST:PORT, where the engine's job service listens, such as "
            "localhost:8099."
        )
    environment = config.beam_arg("environment_type")
    if environment and environment not in _ENVIRONMENTS and not environment.startswith("beam:env:"):
        raise UsageError(
            f"--environment_type {clip(environment)}: allowed are {', '.join(_ENVIRONMENTS)}, in capitals, and Beam's own "
            "identifiers (beam:env:…); docs/engines.md has examples."
        )
    if engine == "prismrunner" and environment == "PROCESS":  # tried with 2.77
        raise UsageError(
            "--environment_type PROCESS: Prism starts the program with its worker's id in quotes, which it then does not know, "
            "and would wait for ever. Leave it out, or give EXTERNAL with a worker pool (docs/engines.md has examples)."
        )
    wanted = _ENVIRONMENTS.get(environment or "")
    if wanted and not (config.beam_arg("environment_config") or config.beam_arg("environment_options")):
        raise UsageError(
            f"--environment_type {environment} also needs --environment_config {wanted} (docs/engines.md has examples)."
        )


def _check_cloud(config: BuildConfig) -> None:
    """What Dataflow cannot do without; Beam would say so after its import and the listing, one at a time."""
    if "dataflow" not in (config.runner or "").lower():
        return
    region = os.environ.get("CLOUDSDK_COMPUTE_REGION")  # Beam takes it too
    missing = [
        f"--{name} {example}"
        for name, example, otherwise in (
            ("project", "my-project", None),
            ("region", "us-central1", region),
            ("temp_location", "gs://bucket/folder", config.beam_arg("staging_location")),
        )
        if not (config.beam_arg(name) or otherwise)
    ]
    if missing:
        raise UsageError(
            f"--runner {config.runner} also needs {', '.join(missing)}. run_dataflow.sh gives all of them: PROJECT=… REGION=… "
            "./run_dataflow.sh INPUT OUTPUT"
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
