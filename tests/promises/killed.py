"""One small build, killed at every step it takes on the disk, and what was there before and after the same command again."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import shardfeed
from shardfeed.errors import DatasetError
from tests.promises import builds, disk, hooks, steps
from tests.promises.builder import Ended
from tests.promises.photos import make_photos, write

IMAGES = 9  # with the one that cannot be used
_PARTS = 3  # a shard: so that some are finished, one is torn and one is not begun


@dataclass(frozen=True)
class Point:
    """Where the process gets SIGKILL: before step ``number``, or, ``torn``, in the middle of writing a file there."""

    number: int
    torn: bool
    step: str

    def __str__(self) -> str:
        return f"{'in' if self.torn else 'before'} step {self.number}: {self.step}"


@dataclass(frozen=True)
class Killed:
    """A build killed at ``point``.

    ``left``: files it left behind. ``finished``: images in parts that had a sidecar by then. ``found``: what
    ``shardfeed.info`` said of it ("" = a dataset). ``again``: the same command's second run, which decoded ``encoded`` images
    and left ``digests``.
    """

    point: Point
    code: int
    left: tuple[str, ...]
    finished: int
    found: str
    again: Ended
    encoded: int
    digests: dict[str, str]
    runs: bool  # run.json is there at the end


@dataclass(frozen=True)
class KilledBuilds:
    """``whole``: digests of the build that nobody killed; ``steps``: what it did."""

    whole: dict[str, str]
    steps: tuple[str, ...]
    killed: tuple[Killed, ...]


def input_of(folder: Path) -> Path:
    """Photos of two classes, and one file that is none."""
    photos = make_photos(folder / "photos", each=(IMAGES - 1) // 2)
    write(photos, "cat/empty.jpg", b"")
    return photos


def kill_everywhere(folder: Path) -> KilledBuilds:
    photos, whole, log = input_of(folder), folder / "whole", folder / "steps"
    few_parts = partial(hooks.parts_a_shard, _PARTS)
    builds.built(photos, whole, hooks=[few_parts, partial(steps.record_steps, log)])
    taken = log.read_text().splitlines()
    points = [Point(number, False, step) for number, step in enumerate(taken)]
    points += [Point(number, True, step) for number, step in enumerate(taken) if step.startswith("write")]
    killed = builds.each(functools.partial(_kill, folder, photos), points)
    return KilledBuilds(disk.digests(whole), tuple(taken), tuple(killed))


def _kill(folder: Path, photos: Path, point: Point) -> Killed:
    out, log = folder / f"{point.number}{'t' * point.torn}", folder / f"images-{point.number}{'t' * point.torn}"
    few_parts = partial(hooks.parts_a_shard, _PARTS)
    first = builds.build(photos, out, hooks=[few_parts, partial(steps.kill_before, point.number, point.torn)])
    left, finished, found = tuple(disk.files(out)), finished_images(out), what_is_there(out)
    again = builds.build(photos, out, hooks=[few_parts, partial(hooks.count_images, log)])
    encoded = log.stat().st_size if log.exists() else 0
    digests, runs = disk.digests(out), (out / "run.json").exists()
    shutil.rmtree(out, ignore_errors=True)
    return Killed(point, first.code, left, finished, found, again, encoded, digests, runs)


def finished_images(out: Path) -> int:
    """Decoded images whose parts have a sidecar (an empty file is rejected by its size, before any decoder)."""
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
