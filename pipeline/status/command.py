"""``shardfeed status``: how far a build is, from what lies in its output; of the build's process nothing is asked.

The one decision: the sidecars are the truth. A part counts when its sidecar is there, whoever made it, so the answer is the same
for a build here, a job on Dataflow and one that was killed last week. One listing, then at most a few hundred sidecars are read;
of more parts the numbers are scaled up and said to be about right. So it says when the last file was written, and what to do in
either case, never that a build runs. Read-only: a torn file is counted and left to the build.
"""

from __future__ import annotations

import os
import re
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import Manifest, parse_manifest
from shardfeed.pipeline.output.folder import check_folder
from shardfeed.pipeline.status.report import Parts, State, Status
from shardfeed.storage import NotFoundError, Stat
from shardfeed.transforms import stores
from shardfeed.transforms.elements import add_counts
from shardfeed.transforms.output.claim import DESKTOP_FILES, Claim, read_claim
from shardfeed.transforms.output.part_files import Sidecar, parse_sidecar
from shardfeed.transforms.run.concurrent_requests import side_by_side
from shardfeed.transforms.run.outcome import parse_outcome
from shardfeed.transforms.stores.base import WritableStore

READ = 256  # sidecars; above this a regular sample of them, an error of 2 % where parts differ by 30 %
WINDOW_SECONDS = 600.0  # of the latest parts that the rate is taken from
QUIET_SECONDS = 180.0  # without a new file, or five parts' time, after which a build seems to have stopped
FOREIGN = 1_000  # files of others, before any of ours, that settle the question
_EPOCHS = (1_400_000_000, 4_000_000_000)  # seconds that a file's time can lie between

_SIDECAR = re.compile(r"_parts/([0-9a-f]{32})/([^/]+)/([0-9]{5,18})\.json")
_OUTCOME = re.compile(r"_parts/outcome-[^/]+\.json")


@dataclass
class _Found:
    """What one listing showed; sidecars as times and part numbers, so that a million of them are 16 MB."""

    names: set[str] = field(default_factory=set)  # published names
    work: int = 0
    foreign: list[str] = field(default_factory=list)
    latest: float | None = None
    times: dict[tuple[str, str], array[float]] = field(default_factory=dict)  # by (fingerprint, split)
    parts: dict[tuple[str, str], array[int]] = field(default_factory=dict)
    outcomes: list[tuple[float, str]] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)


def status_of(directory: str, *, now: float | None = None) -> Status:
    """What ``directory`` holds: a dataset, a build under way or broken off, or neither. ``now``: seconds since 1970.

    Raises:
        DatasetError: a manifest that is damaged.
        ConflictError: a claim that is damaged, or a folder where a build writes a file.
        StorageError, UsageError: the place cannot be read.
    """
    if not directory:  # as from a variable that is not set
        raise UsageError(
            "DIR is an empty string. Name a build's output: a folder (. for the current one) or gs://bucket/folder."
        )
    url = (
        storage.normal_url(directory)
        if storage.is_remote(directory)
        else os.path.abspath(os.path.expanduser(directory))
    )
    if os.path.exists(url) and not os.path.isdir(url):
        what = "a file" if os.path.isfile(url) else "not a folder"
        raise UsageError(f"{clip(url)} is {what}. Name the folder that a build writes to.")
    store, now = stores.open_output(url), time.time() if now is None else now
    found = _look(store)
    if naming.MANIFEST in found.names:
        manifest = parse_manifest(store.read(naming.MANIFEST), f"{url}/{naming.MANIFEST}")
        return _complete(url, found, manifest)
    if os.path.isdir(url):  # else it would look whether a folder can be made there
        check_folder(url)
    try:
        claim = read_claim(store)
    except NotFoundError:
        if found.foreign or found.names:
            return Status("foreign", url, files=tuple(sorted([*found.foreign, *found.names])[:3]))
        return Status("empty", url, left=found.work)
    if claim.discarding:
        return Status("discarding", url, left=found.work + len(found.names), quiet=_quiet(found, now))
    return _under_way(store, found, claim, now)


def _complete(url: str, found: _Found, manifest: Manifest) -> Status:
    shards = sum(len(split.shards) for split in manifest.splits.values())
    size = sum(split.bytes for split in manifest.splits.values())
    return Status(
        "complete",
        url,
        fingerprint=manifest.fingerprint,
        config=manifest.config,
        total=manifest.written + sum(manifest.rejected.values()),
        parts=Parts(images=manifest.written, bytes=size, rejected=manifest.rejected),
        shards=(shards, shards),
        left=found.work,
    )


def _look(store: WritableStore) -> _Found:
    found = _Found()
    for name, stat in store.list():
        if naming.is_published_name(name):
            found.names.add(name)
        elif not naming.is_ours(name):
            if name.rpartition("/")[2] not in DESKTOP_FILES:
                found.foreign.append(name)
            if len(found.foreign) == FOREIGN and not found.names and not found.work:
                break  # somebody's photos; all of them need not be listed to see it
            continue
        else:
            found.work += 1
        when = _time(store, stat)
        found.latest = max(found.latest or when, when) if when else found.latest
        if match := _SIDECAR.fullmatch(name):
            key = match[1], match[2]
            found.times.setdefault(key, array("d")).append(when)
            found.parts.setdefault(key, array("q")).append(int(match[3]))
        elif _OUTCOME.fullmatch(name):
            found.outcomes.append((when, name))
        elif naming.is_rejects(name.rpartition("/")[2]):
            found.rejects.append(name)
    return found


def _time(store: WritableStore, stat: Stat) -> float:
    """Seconds since 1970 at which a file was written; 0 where the store does not say.

    On a disk the version is the time in nanoseconds. On a bucket it is the generation, which Cloud Storage makes of the time in
    microseconds: not promised, so whatever cannot be a time is taken for none.
    """
    seconds = stat.version / (1e6 if storage.is_remote(store.url) else 1e9)
    return seconds if _EPOCHS[0] < seconds < _EPOCHS[1] else 0.0


def _under_way(store: WritableStore, found: _Found, claim: Claim, now: float) -> Status:
    fingerprint, splits = claim.fingerprint, claim.splits
    keys = [key for key in sorted(found.times) if key[0] == fingerprint]
    parts = _read_parts(store, [(key, part) for key in keys for part in found.parts[key]])
    total = sum(images for images, _ in splits.values()) if splits else None
    if (
        splits and not parts.exact
    ):  # part membership is a hash: a share of the parts is that share of the images, very nearly
        finished = {split: len(found.parts[key]) for key in keys for _, split in (key,)}
        done = round(sum(s[0] * min(finished.get(name, 0) / _used(*s), 1) for name, s in splits.items()))
        parts = replace(parts, images=done - sum(parts.rejected.values()))
    times = sorted(when for key in keys for when in found.times[key] if when)
    shards = _shards(found.names)
    rejects = tuple(
        sorted(f"{store.url}/{name}" for name in found.rejects if name.startswith(naming.work_folder(fingerprint)))
    )
    encoded = total is not None and parts.images + sum(parts.rejected.values()) >= total
    rate, pause = _rate(times, parts)
    quiet = _quiet(found, now)
    state: State = "publishing" if shards[0] or encoded else "encoding"
    if encoded and rejects and not found.names:  # a rerun that may go on writes its rejects into the output first
        state = "rejected"
    return Status(
        state,
        store.url,
        fingerprint=fingerprint,
        config=claim.config,
        total=total,
        parts=parts,
        rate=rate,
        quiet=quiet,
        silent=None if quiet is None else quiet >= max(QUIET_SECONDS, 5 * pause),
        shards=shards,
        left=found.work,
        rejects=rejects,
        said=_said(store, found),
    )  # fmt: skip


def _used(images: int, parts: int) -> float:
    """How many of a split's parts can be expected to have an image, one at least."""
    return max(parts * (1 - (1 - 1 / parts) ** images), 1.0)


def _read_parts(store: WritableStore, parts: list[tuple[tuple[str, str], int]]) -> Parts:
    """Sums over the sidecars, or over a regular sample of them scaled up."""
    step = max(1, -(-len(parts) // READ))

    def read(item: tuple[tuple[str, str], int]) -> Sidecar | None:
        (fingerprint, split), part = item
        try:
            return parse_sidecar(store.read_sealed(naming.sidecar_name(fingerprint, split, part)))
        except NotFoundError:  # swept or healed since the listing
            return None

    chosen = parts[::step]
    results = [sidecar.result for sidecar in side_by_side(store.url, read, chosen) if sidecar is not None]
    exact = step == 1 and len(results) == len(parts)
    scale = len(parts) / len(results) if results else 1.0
    rejected = add_counts(*(result.rejected for result in results))
    return Parts(
        finished=len(parts),
        images=round(sum(result.records for result in results) * scale),
        bytes=round(sum(result.bytes for result in results) * scale),
        rejected={reason: round(count * scale) for reason, count in rejected.items()},
        exact=exact,
    )


def _rate(times: list[float], parts: Parts) -> tuple[float | None, float]:
    """(images a second, seconds a part) of the latest parts; they finish side by side, so the first is only the clock's start."""
    recent = [when for when in times if when > times[-1] - WINDOW_SECONDS] if times else []
    if len(recent) < 2 or recent[-1] <= recent[0]:
        return None, 0.0
    pause = (recent[-1] - recent[0]) / (len(recent) - 1)
    images = (parts.images + sum(parts.rejected.values())) / parts.finished
    return images / pause, pause


def _quiet(found: _Found, now: float) -> float | None:
    return None if found.latest is None else max(now - found.latest, 0.0)


def _shards(names: Iterable[str]) -> tuple[int, int]:
    """(published, all) shards, by the names of those that are there: ``train-00003-of-00016.tfrecord``."""
    there, counts = 0, {}
    for name in names:
        if match := re.fullmatch(r"(.+)-\d+-of-(\d+)\.tfrecord", name):
            there, counts[match[1]] = there + 1, int(match[2])
    return there, sum(counts.values())


def _said(store: WritableStore, found: _Found) -> str:
    """What the latest run that failed left as its reason."""
    for _, name in sorted(found.outcomes, reverse=True):
        try:
            outcome = parse_outcome(store.read(name))
        except (NotFoundError, ValueError, KeyError, TypeError, RecursionError):  # gone, torn, or not a run's
            continue
        return f"exit {outcome.code}: {outcome.message}"
    return ""
