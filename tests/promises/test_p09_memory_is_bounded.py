"""P9: memory is bounded, by budgets in bytes, whatever the images and the number of threads."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from tests.promises import builds, disk, hooks
from tests.promises.photos import make_photos
from transforms.budget import Budget

_SIDE = 6_000  # pixels: 108 MB of RGB, within the limit of 64 Mpx
_GIANTS = 4


@pytest.mark.parametrize(
    ("image_format", "room"),
    [
        # Measured: one after the other need up to 290 MB above what is mapped at the start, since small buffers of other
        # threads lie between their blocks by then; all at once 410 MB and more.
        pytest.param("PNG", 350 << 20, id="PNG"),
        # Two canvases and a copy, all with alpha, beside the pixels: 496 MB for one alone.
        pytest.param("WEBP", 900 << 20, id="WEBP"),
    ],
)
def test_giant_images_in_many_threads_are_in_memory_one_at_a_time(image_format: str, room: int, tmp_path: Path) -> None:
    photos, out, file = make_photos(tmp_path / "photos", each=2), tmp_path / "out", io.BytesIO()
    Image.new("RGB", (_SIDE, _SIDE), (200, 90, 160)).save(file, image_format)
    for number in range(_GIANTS):
        (photos / "cat" / f"giant-{number}.{image_format.lower()}").write_bytes(file.getvalue())
    limits: list[Callable[[], None]] = [
        hooks.one_image_a_slice,
        partial(hooks.parts_a_shard, 1),
        partial(hooks.limit_memory, room),
    ]
    flags = ("--threads", str(_GIANTS), "--max_rejected", "0")
    ended = builds.built(photos, out, *flags, hooks=limits)
    assert ended.err == ""
    assert len(disk.keys(out)) == 4 + _GIANTS


def test_an_image_above_the_limit_of_pixels_is_rejected_before_its_pixels_are_in_memory(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", each=2), tmp_path / "out"
    whole = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(whole, "PNG")  # 900 Mpx, 2.7 GB of RGB
    (photos / "cat" / "bomb.png").write_bytes(whole.getvalue())
    builds.built(photos, out, hooks=[partial(hooks.limit_memory, 400 << 20)])
    assert [(line["key"], line["reason"]) for line in disk.rejects(out)] == [("cat/bomb.png", "PIXELS")]


def test_a_file_above_the_limit_of_bytes_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", each=2), tmp_path / "out"
    with open(photos / "cat" / "huge.jpg", "wb") as file:
        file.truncate(8 << 30)  # a hole: it takes no room on the disk
    builds.built(photos, out, hooks=[partial(hooks.limit_memory, 400 << 20)])
    assert [(line["key"], line["reason"]) for line in disk.rejects(out)] == [("cat/huge.jpg", "TOO_LARGE")]


def test_a_budget_is_never_overdrawn_by_requests_that_fit_it() -> None:
    budget, lock, held, most = Budget(100), threading.Lock(), 0, 0

    def work(size: int) -> None:
        nonlocal held, most
        for _ in range(20):
            with budget.hold(size):
                with lock:
                    held += size
                    most = max(most, held)
                time.sleep(0.001)  # the others ask for their share meanwhile
                with lock:
                    held -= size

    threads = [threading.Thread(target=work, args=(size,)) for size in (1, 30, 40, 60, 99, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 100
    assert held == 0


def test_a_request_above_the_whole_budget_waits_until_it_is_alone_and_then_others_wait() -> None:
    budget, order, small_is_in, small_may_go = Budget(100), [], threading.Event(), threading.Event()

    def small() -> None:
        with budget.hold(10):
            small_is_in.set()
            small_may_go.wait()
            order.append("small ends")

    def large() -> None:
        with budget.hold(500):
            order.append("large")

    threads = [threading.Thread(target=small), threading.Thread(target=large)]
    threads[0].start()
    small_is_in.wait()
    threads[1].start()
    small_may_go.set()
    for thread in threads:
        thread.join()
    assert order == ["small ends", "large"]


def test_a_budget_is_given_back_when_the_block_raises() -> None:
    budget = Budget(10)
    with pytest.raises(ValueError, match="within"), budget.hold(10):
        raise ValueError("within")
    with budget.hold(10):
        pass
