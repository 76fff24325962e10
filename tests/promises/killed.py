"""One small build under each driver, killed at steps that it takes on the disk.

What was there then, and after a second run.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import shardfeed
from shardfeed.errors import DatasetError
from tests.kit import builds, disk, hooks, steps
from tests.kit.builder import Ended
from tests.kit.images import make_photos, write

IMAGES = 9  # with the one that cannot be used
_PARTS = 3  # a shard: so that some are finished, one is torn and one is not begun

# The graph's steps, by what they do to the disk (see ``steps.kind_of``). The graph has another
# order and transport only, so one kill of each will do: the other driver is killed everywhere.
STEPS_OF_GRAPH = (
    "link _parts/CLAIM",  # ClaimOutput
    "link _parts/N/train/N.json",  # EncodeParts
    "link rejects-N-of-N.jsonl",  # WriteRejects
    "link duplicates.jsonl",  # FindDuplicates
    "link _parts/N/duplicates.groups",
    "link train-N-of-N.tfrecord.idx",  # ComposeShards
    "link train-N-of-N.parquet",
    "link _parts/N/index/train-N-of-N.tfrecord.classes",
    "write _parts/tmp/tmp-N-N",  # of the claim, a shard or a file beside the shards
    "unlink _parts/tmp/tmp-N-N",
    "link train.index",  # Commit
    "link manifest.json",
    "link run.json",
    "unlink _parts/N/train/N.json",  # Sweep
    "unlink _parts/CLAIM",
)


@dataclass(frozen=True)
class Point:
    """Where the process gets SIGKILL: before the step with this index among those of its kind.

    A step that writes a file is killed in the middle: what lies there before it is what the step
    ahead of it left.
    """

    kind: str
    index: int

    @property
    def torn(self) -> bool:
        return self.kind.startswith("write")

    def __str__(self) -> str:
        return f"{'in' if self.torn else 'before'} {self.kind} #{self.index}"


@dataclass(frozen=True)
class Killed:
    """A build killed at ``point``, and what a driver made of it.

    ``left``: files it left behind. ``finished``: images in parts that had a sidecar by then.
    ``found``: what ``shardfeed.info`` said of it ("": a dataset). ``again``: the same command's
    second run, with ``driver``; it decoded ``encoded`` images and left ``digests``.
    """

    point: Point
    code: int
    left: tuple[str, ...]
    finished: int
    found: str
    driver: str
    again: Ended
    encoded: int
    digests: dict[str, str]
    runs: bool  # run.json is there at the end

    def __str__(self) -> str:
        return f"{self.point}, then {self.driver}"


@dataclass(frozen=True)
class KilledBuilds:
    """Builds of ``driver`` that were killed at ``points``.

    ``whole``: digests of the build that nobody killed; ``steps``: what it did.
    """

    driver: str
    whole: dict[str, str]
    steps: tuple[str, ...]
    points: tuple[Point, ...]
    killed: tuple[Killed, ...]


def input_of(folder: Path) -> Path:
    """Photos of two classes, one of them in both, and one file that is none."""
    photos = make_photos(folder / "photos", each=(IMAGES - 1) // 2)
    write(photos, "dog/copy.jpg", (photos / "cat" / "000.jpg").read_bytes())
    (photos / "dog" / "000.jpg").unlink()
    write(photos, "cat/empty.jpg", b"")
    return photos


def kill_everywhere(folder: Path, driver: str) -> KilledBuilds:
    """Kills the local build at every step, and the graph at one of each of ``STEPS_OF_GRAPH``.

    The local build finishes what either left, the graph what the local build left at such a step.
    """
    photos, whole, log = input_of(folder), folder / "whole", folder / "steps"
    builds.built(photos, whole, *builds.DRIVERS[driver], hooks=[_FEW_PARTS, partial(steps.record_steps, log)])
    taken = log.read_text().splitlines()
    some = tuple(_points_of(Counter(map(steps.kind_of, taken))))
    points = tuple(_every_point(taken)) if driver == "local" else some

    def kill(numbered: tuple[int, Point]) -> list[Killed]:
        number, point = numbered
        again = list(builds.DRIVERS) if driver == "local" and point in some else ["local"]
        return _kill(folder / str(number), photos, point, driver, again)

    killed = builds.each(kill, enumerate(points))
    return KilledBuilds(
        driver, disk.digests(whole), tuple(taken), points, tuple(one for many in killed for one in many)
    )


_FEW_PARTS = partial(hooks.parts_a_shard, _PARTS)


def _every_point(taken: list[str]) -> Iterator[Point]:
    seen: Counter[str] = Counter()
    for kind in map(steps.kind_of, taken):
        yield Point(kind, seen[kind])
        seen[kind] += 1


def _points_of(counts: Counter[str]) -> Iterator[Point]:
    """One of each of the graph's steps, in the middle of those of its kind."""
    for kind in STEPS_OF_GRAPH:
        assert counts[kind], f"the build took no step of the kind {kind}"
        yield Point(kind, counts[kind] // 2)


def _kill(folder: Path, photos: Path, point: Point, driver: str, drivers: list[str]) -> list[Killed]:
    out = folder / "out"
    folder.mkdir()
    kill = partial(steps.kill_before, point.kind, point.index, point.torn)
    first = builds.build(photos, out, *builds.DRIVERS[driver], hooks=[_FEW_PARTS, kill])
    left, finished, found = tuple(disk.files(out)), finished_images(out), what_is_there(out)
    outs = [out, *(shutil.copytree(out, folder / name) for name in drivers[1:])]
    killed = [
        Killed(point, first.code, left, finished, found, name, *_run_again(photos, copy, name))
        for name, copy in zip(drivers, outs, strict=True)
    ]
    shutil.rmtree(folder)
    return killed


def _run_again(photos: Path, out: Path, driver: str) -> tuple[Ended, int, dict[str, str], bool]:
    log = out.with_suffix(".images")
    log.touch()
    count = partial(hooks.count_images, log)
    again = builds.build(photos, out, *builds.DRIVERS[driver], hooks=[_FEW_PARTS, count])
    return again, log.stat().st_size, disk.digests(out), (out / "run.json").exists()


def finished_images(out: Path) -> int:
    """Decoded images whose parts have a sidecar.

    An empty file is rejected by its size, before any decoder.
    """
    done = 0
    for sidecar in out.glob("_parts/*/*/*.json"):
        result = json.loads(sidecar.read_bytes().splitlines()[0])["result"]
        done += result["records"]
    return done


def what_is_there(out: Path) -> str:
    """What a trainer is told; "" when there is a dataset."""
    try:
        shardfeed.info(out)
    except DatasetError as error:
        return str(error)
    return ""
