"""``shardfeed status``: how far a build is, from the files in its output alone.

The sidecars are the truth. A part counts if its sidecar is there, whoever made it, so the answer is
the same for a build here, a job on Dataflow and a build that was killed last week. The output is
listed once, then at most a few hundred sidecars are read; if there are more parts, the numbers are
scaled up and marked "about". Files cannot tell whether the build's process still runs, so the
command says when the last file was written and what to do in either case. It only reads: a torn
file is counted and left to the build.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import parse_manifest
from shardfeed.pipeline.status.report import BuildState, Status
from shardfeed.storage import NotFoundError, Stat
from shardfeed.transforms import stores
from shardfeed.transforms.elements import PartResult, add_counts
from shardfeed.transforms.output.claim import DESKTOP_FILES, Claim, read_claim
from shardfeed.transforms.output.part_files import Sidecar, parse_sidecar
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.run.state import Outcome
from shardfeed.transforms.stores.base import WritableStore

SIDECARS_READ = 256  # sidecars; if there are more, a regular sample of them: an error of 2 % if parts differ by 30 %
WINDOW_SECONDS = 600.0  # before the latest part; the rate is that of the parts in it
QUIET_SECONDS = 180.0  # without a new file, or five parts' time: after that a build has probably ended
FOREIGN_FILES = 1_000  # files of others, before any of ours: enough to know that this is no build's output
_EPOCHS = (1_400_000_000, 4_000_000_000)  # seconds; a file's time lies between them

_SIDECAR = re.compile(r"_parts/([0-9a-f]{32})/[^/]+/[0-9]{5,18}\.json")
_OUTCOME = re.compile(r"_parts/outcome-[^/]+\.json")
_SHARD = re.compile(r"(.+)-\d+-of-(\d+)\.tfrecord")


@dataclass
class _Files:
    """What the listing showed."""

    published: set[str] = field(default_factory=set)
    work: int = 0  # files of ours below _parts/
    foreign: list[str] = field(default_factory=list)
    latest: float = 0.0  # when the last file of ours was written; 0 if the store does not say
    sidecars: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))  # by build
    outcomes: list[tuple[float, str]] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)  # of builds that --duplicates fail stopped


def build_status(directory: str, *, now: float | None = None) -> Status:
    """What ``directory`` holds: a dataset, an unfinished build, or neither.

    ``now``: the time in seconds since 1970; None: the clock's.

    Raises:
        DatasetError: a manifest that is damaged.
        ConflictError: a claim that is damaged.
        StorageError, UsageError: the place cannot be read.
    """
    url = _address(directory)
    store = stores.open_output(url)
    files = _list(store)
    idle = max((time.time() if now is None else now) - files.latest, 0.0) if files.latest else None
    if naming.MANIFEST in files.published:
        return _complete(store, files)
    try:
        claim = read_claim(store)
    except NotFoundError:
        others = sorted([*files.foreign, *files.published])
        return Status("foreign" if others else "empty", url, foreign=others[:3], work_files=files.work)
    if claim.discarding:
        return Status("discarding", url, work_files=files.work + len(files.published), idle=idle)
    return _unfinished(store, files, claim, idle)


def _address(directory: str) -> str:
    if not directory:  # as from a variable that is not set
        raise UsageError(
            "DIR is an empty string. Name a build's output: a folder (. for the current one) or gs://bucket/folder."
        )
    if storage.is_remote(directory):
        return storage.normal_url(directory)
    path = os.path.abspath(os.path.expanduser(directory))
    if os.path.exists(path) and not os.path.isdir(path):
        what = "a file" if os.path.isfile(path) else "not a folder"
        raise UsageError(f"{clip(path)} is {what}. Name the folder that a build writes to.")
    return path


def _list(store: WritableStore) -> _Files:
    files = _Files()
    for name, stat in store.list():
        if naming.is_published_name(name):
            files.published.add(name)
        elif naming.is_ours(name):
            files.work += 1
        else:
            if name.rpartition("/")[2] not in DESKTOP_FILES:
                files.foreign.append(name)
            if len(files.foreign) == FOREIGN_FILES and not files.published and not files.work:
                break  # somebody's photos; not all of them need to be listed
            continue
        when = _time(store, stat)
        files.latest = max(files.latest, when)
        if match := _SIDECAR.fullmatch(name):
            files.sidecars[match[1]].append((when, name))
        elif _OUTCOME.fullmatch(name):
            files.outcomes.append((when, name))
        elif naming.is_rejects(name.rpartition("/")[2]):
            files.rejects.append(name)
        elif name.endswith(f"/{naming.DUPLICATES}"):
            files.duplicates.append(name)
    return files


def _time(store: WritableStore, stat: Stat) -> float:
    """Seconds since 1970 at which a file was written; 0 if the store does not say.

    On a disk the version is the time in nanoseconds. On a bucket it is the generation, which Cloud
    Storage makes from the time in microseconds. That is not promised, so a number that cannot be a
    time is not used as one.
    """
    seconds = stat.version / (1e6 if storage.is_remote(store.url) else 1e9)
    return seconds if _EPOCHS[0] < seconds < _EPOCHS[1] else 0.0


def _complete(store: WritableStore, files: _Files) -> Status:
    manifest = parse_manifest(store.read(naming.MANIFEST), f"{store.url}/{naming.MANIFEST}")
    shards = sum(len(split.shards) for split in manifest.splits.values())
    return Status(
        "complete",
        store.url,
        fingerprint=manifest.fingerprint,
        config=manifest.config,
        total=manifest.written + sum(manifest.rejected.values()),
        images=manifest.written,
        bytes=sum(split.bytes for split in manifest.splits.values()),
        rejected=manifest.rejected,
        shards=(shards, shards),
        work_files=files.work,
    )


def _unfinished(store: WritableStore, files: _Files, claim: Claim, idle: float | None) -> Status:
    sidecars = files.sidecars[claim.fingerprint]
    names = sorted(name for _, name in sidecars)
    read = _sample(store, names)
    scale = len(names) / len(read) if read else 1.0
    exact = len(read) == len(names)
    rejected = {name: round(count * scale) for name, count in add_counts(*(result.rejected for result in read)).items()}
    images = round(sum(result.records for result in read) * scale)
    done = images + sum(rejected.values())
    total = sum(count for count, _ in claim.splits.values()) if claim.splits else None
    pause = _seconds_per_part(sorted(when for when, _ in sidecars if when))
    shards = _shards(files.published)
    encoded = exact and total is not None and done >= total
    folder = naming.work_folder(claim.fingerprint)
    rejects = sorted(f"{store.url}/{name}" for name in files.rejects if name.startswith(folder))
    state: BuildState = "publishing" if shards[0] or encoded else "encoding"
    duplicates = f"{folder}/{naming.DUPLICATES}" in files.duplicates
    if all(map(naming.is_rejects, files.published)):  # a rerun that may go on publishes more
        state = "rejected" if rejects else "duplicates" if duplicates else state
    return Status(
        state,
        store.url,
        fingerprint=claim.fingerprint,
        config=claim.config,
        total=total,
        images=images,
        bytes=round(sum(result.bytes for result in read) * scale),
        rejected=rejected,
        parts=len(names),
        exact=exact,
        rate=done / len(names) / pause if pause else None,
        idle=idle,
        silent=None if idle is None else idle >= max(QUIET_SECONDS, 5 * pause),
        shards=shards,
        work_files=files.work,
        rejects=rejects,
        duplicates=f"{store.url}/{folder}/{naming.DUPLICATES}" if state == "duplicates" else "",
        last_failure=_last_failure(store, files.outcomes),
    )


def _sample(store: WritableStore, names: Sequence[str]) -> list[PartResult]:
    """The results of finished parts: all, or a regular sample of at most ``SIDECARS_READ``."""

    def read(name: str) -> Sidecar | None:
        try:
            return parse_sidecar(store.read_sealed(name))
        except NotFoundError:  # swept or replaced since the listing
            return None

    step = max(1, -(-len(names) // SIDECARS_READ))
    return [sidecar.result for sidecar in side_by_side(store.url, read, names[::step]) if sidecar is not None]


def _seconds_per_part(times: list[float]) -> float:
    """Seconds between the latest parts, by their rising times; 0 if there are too few."""
    recent = [when for when in times if when > times[-1] - WINDOW_SECONDS]
    return (recent[-1] - recent[0]) / (len(recent) - 1) if len(recent) > 1 else 0.0


def _shards(names: set[str]) -> tuple[int, int]:
    """(published, all) shards, by names such as ``train-00003-of-00016.tfrecord``."""
    found = [match for name in names if (match := _SHARD.fullmatch(name))]
    return len(found), sum({match[1]: int(match[2]) for match in found}.values())


def _last_failure(store: WritableStore, outcomes: list[tuple[float, str]]) -> str:
    """Why the latest run that failed did so, as it wrote it down."""
    for _, name in sorted(outcomes, reverse=True):
        try:
            outcome = Outcome.from_bytes(store.read(name))
        except (NotFoundError, ValueError, KeyError, TypeError, RecursionError):  # gone, torn, or not a run's
            continue
        return f"exit {outcome.code}: {outcome.message}"
    return ""
