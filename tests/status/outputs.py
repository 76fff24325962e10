"""Outputs in which a build was broken off, made without one."""

from __future__ import annotations

import os
from pathlib import Path

from shardfeed.format import naming
from shardfeed.transforms import stores
from shardfeed.transforms.elements import PartResult, Plan, SplitPlan
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import claim_output
from shardfeed.transforms.output.part_files import Sidecar
from shardfeed.transforms.stores.base import WritableStore
from tests.kit.rows import rows_of

OPTIONS = BuildOptions(image=ImageOptions(height=16, width=16), num_shards=2)
FINGERPRINT = "a" * 32
NOW = 1_800_000_000.0


def write_sidecar(store: WritableStore, number: int, records: int = 10, rejected: int = 0) -> str:
    """The name of the sidecar of a part of ``train``, with records of 100 bytes."""
    result = PartResult(
        split="train",
        part=number,
        bytes=100 * records,
        records=records,
        crc32c=0,
        key_sum=0,
        rejected={"FORMAT": rejected} if rejected else {},
        fixes={},
        class_counts={"cat": records},
        stats=None,
    )
    name = naming.sidecar_name(FINGERPRINT, "train", number)
    store.create(name, Sidecar(result, rows_of([100] * records), (), {}).to_bytes())
    return name


def claim(store: WritableStore, images: int, parts: int) -> None:
    """A claim of a build of ``train``."""
    claim_output(store, Plan(FINGERPRINT, ("cat",), {}, images, {"train": SplitPlan(parts, 2, images)}), OPTIONS, 7)


def under_way(
    out: Path, images: int, parts: int, finished: int, *, every: float = 2.0, rejected: int = 0
) -> WritableStore:
    """A build with ``finished`` parts of ten images, ``every`` seconds apart, until ``NOW``."""
    store = stores.open_output(str(out))
    claim(store, images, parts)
    set_time(out / naming.CLAIM, NOW - every * finished)
    for number in range(finished):
        name = write_sidecar(store, number, 10 - rejected, rejected)
        set_time(out / name, NOW - every * (finished - 1 - number))
    return store


def set_time(path: Path, when: float) -> None:
    """Gives a file a time of modification, in seconds since 1970."""
    os.utime(path, (when, when))
