"""P9: memory is bounded, by budgets in bytes, whatever the images and the number of threads."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from shardfeed.pipeline import local
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, Plan, RefBatch, SplitPlan, pack_ref
from shardfeed.transforms.inputs.listing import BATCH_REFS
from tests.kit import builds, disk, hooks, makers
from tests.kit.images import make_photos

_SIDE = 6_000  # pixels: 108 MB of RGB, within the limit of 64 Mpx
_GIANTS = 6


# Bytes above what is mapped at the start. Measured: images one after the other need 280 to 540 MB,
# since small buffers of other threads lie between their pixels; all at once need 830 MB.
_ROOM_PNG = 680 << 20
# Two canvases and a copy, with alpha, beside the pixels: 690 to 820 MB; all at once 3.3 GB.
_ROOM_WEBP = 1500 << 20


@pytest.mark.parametrize(
    ("driver", "image_format", "room"),
    [("DirectRunner", "PNG", _ROOM_PNG), ("local", "WEBP", _ROOM_WEBP)],
    ids=["PNG by Beam", "WEBP"],
)
def test_giant_images_in_many_threads_are_in_memory_one_at_a_time(
    driver: str, image_format: str, room: int, tmp_path: Path
) -> None:
    photos, out, file = make_photos(tmp_path / "photos", each=2), tmp_path / "out", io.BytesIO()
    Image.new("RGB", (_SIDE, _SIDE), (200, 90, 160)).save(file, image_format, compress_level=1, method=0)
    for number in range(_GIANTS):
        (photos / "cat" / f"giant-{number}.{image_format.lower()}").write_bytes(file.getvalue())
    limits: list[Callable[[], None]] = [
        hooks.one_image_a_slice,
        partial(hooks.parts_a_shard, 1),
        partial(hooks.limit_memory, room),
    ]
    flags = ("--threads", str(_GIANTS), "--max_rejected", "0", *builds.DRIVERS[driver])
    ended = builds.built(photos, out, *flags, hooks=limits)
    assert ended.err == ""
    assert len(disk.keys(out)) == 4 + _GIANTS


def test_an_image_above_the_limit_of_pixels_is_rejected_before_its_pixels_are_in_memory(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", each=2), tmp_path / "out"
    side = 30_000  # 900 Mpx, 2.7 GB of RGB
    bomb = makers.png(makers.header(side, side, 1, 0), makers.rows([bytes(side // 8)] * side))
    (photos / "cat" / "bomb.png").write_bytes(bomb)
    builds.built(photos, out, hooks=[partial(hooks.limit_memory, 400 << 20)])
    assert [(line["key"], line["reason"]) for line in disk.rejects(out)] == [("cat/bomb.png", "PIXELS")]


def test_a_file_above_the_limit_of_bytes_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", each=2), tmp_path / "out"
    with open(photos / "cat" / "huge.jpg", "wb") as file:
        file.truncate(8 << 30)  # a hole: it takes no room on the disk
    builds.built(photos, out, hooks=[partial(hooks.limit_memory, 400 << 20)])
    assert [(line["key"], line["reason"]) for line in disk.rejects(out)] == [("cat/huge.jpg", "TOO_LARGE")]


def test_the_local_build_keeps_each_listed_image_once_and_packed() -> None:
    few, many = 5_000, 10_000
    per_image = (peak_of_references(many) - peak_of_references(few)) / (many - few)
    assert per_image < 1.5 * len(packed(0))


def packed(number: int) -> bytes:
    """A reference with a key as long as those of real datasets."""
    return pack_ref(ImageRef(0, b"class-%d/%032x.jpg" % (number % 10, number), Stat(100_000, 1_700_000_000 * 10**9)))


def peak_of_references(images: int) -> int:
    """Most bytes that Python holds while images are listed and given to the encoder."""
    plan = Plan("fingerprint", ("class",), {}, images, {"train": SplitPlan(images // 300, None, images)})
    references = local._References()
    tracemalloc.start()
    try:
        for first in range(0, images, BATCH_REFS):
            references.add(RefBatch("train", b"".join(map(packed, range(first, first + BATCH_REFS)))))
        for _ in local._in_turn(references.by_part(plan, seed=0), start=0):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
