from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from PIL import Image, ImageFile

from shardfeed.transforms.images import limits
from shardfeed.transforms.images.limits import check_size
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image
from shardfeed.transforms.images.rejects import RejectError
from tests.corpus.cases import CASES
from tests.kit import makers as m
from tests.kit.sources import ROOT


def test_a_file_of_64_mib_is_the_largest_and_one_of_a_byte_the_smallest() -> None:
    check_size(1)
    check_size(64 << 20)
    with pytest.raises(RejectError, match="EMPTY: zero bytes"):
        check_size(0)
    with pytest.raises(RejectError, match="TOO_LARGE: 67108865 bytes; at most 67108864"):
        check_size((64 << 20) + 1)


def test_a_result_of_4_mpx_is_the_largest() -> None:
    limits.check_output(2048, 2048)
    with pytest.raises(RejectError, match="OUTPUT: the result would be 2048 x 2049 pixels; at most 4194304 in all"):
        limits.check_output(2048, 2049)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_long_thin_image_is_refused_where_its_result_would_be_huge(kind: str) -> None:
    thin = m.saved(Image.new("L", (2, 200)), kind)
    with pytest.raises(RejectError, match="OUTPUT: the result would be 224 x 22400 pixels"):
        process_image(thin, ImageOptions(resize="shortest"))
    assert process_image(thin, ImageOptions(resize="longest")).width == 2


def test_sides_of_100_to_1_are_the_longest() -> None:
    assert process_image(m.saved(Image.new("L", (200, 2)), "PNG"), ImageOptions()).height == 224
    with pytest.raises(RejectError, match="ASPECT"):
        process_image(m.saved(Image.new("L", (201, 2)), "PNG"), ImageOptions())


def test_tolerating_truncation_anywhere_in_the_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(RuntimeError, match="LOAD_TRUNCATED_IMAGES is True"):
        process_image(m.saved(m.photo(), "JPEG"), ImageOptions())


@contextlib.contextmanager
def reserve(held: list[str], size: int) -> Iterator[None]:
    held.append(f"took {size}")
    try:
        yield
    finally:
        held.append("gave back")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (m.saved(m.photo((448, 448)), "JPEG"), 5 * 224 * 224),
        (m.saved(m.photo((100, 100), "L"), "JPEG"), 100 * 100),
        (m.saved(m.photo((100, 100), "CMYK"), "JPEG"), 2 * 5 * 100 * 100),
        (m.saved(m.photo((448, 448)), "JPEG", progressive=True), 5 * 224 * 224 + 2 * 3 * 448 * 448),
        (m.with_a_scan_per_component((448, 448)), 5 * 224 * 224 + 2 * 3 * 448 * 448),
        (m.saved(m.photo((100, 100)), "PNG"), 14 * 100 * 100),
        (m.saved(m.photo((100, 100)), "GIF"), 10 * 100 * 100),
        (m.saved(m.photo((100, 100)), "BMP"), 10 * 100 * 100),
        (m.saved(m.photo((100, 100)), "WEBP"), 20 * 100 * 100),
    ],
    ids=["jpeg-scaled", "jpeg-gray", "jpeg-cmyk", "jpeg-progressive", "jpeg-three-scans", "png", "gif", "bmp", "webp"],
)
def test_memory_is_reserved_once_and_given_back(data: bytes, expected: int) -> None:
    held: list[str] = []
    process_image(data, ImageOptions(), reserve=partial(reserve, held))
    assert held == [f"took {expected + 2 * 4 * 224 * 224}", "gave back"]


def test_memory_is_reserved_by_both_sides_and_given_back_for_a_reject() -> None:
    held: list[str] = []
    data, options = m.saved(m.photo(), "JPEG"), ImageOptions(height=64, width=96)
    process_image(data, replace(options, keep_original=True), reserve=partial(reserve, held))
    process_image(data, options, reserve=partial(reserve, held))
    with pytest.raises(RejectError):
        process_image(data[:-100], options, reserve=partial(reserve, held))

    loaded, result = 5 * 64 * 96, 2 * 4 * 64 * 96
    encoded = [f"took {loaded + result}", "gave back"]
    assert held == [f"took {loaded}", "gave back", *encoded, *encoded]


def test_bombs_are_refused_in_little_memory() -> None:
    """Every case that announces too much, in a process that may take 48 MiB more."""
    script = """
import resource
from tests.corpus.cases import CASES
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image
from shardfeed.transforms.images.rejects import RejectError

bombs = {case.name: case.make() for case in CASES if case.outcome in ("PIXELS", "ASPECT", "CORRUPT")}
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (48 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for name, data in bombs.items():
    try:
        process_image(data, ImageOptions())
    except RejectError as error:
        print(name, error.reason.value)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    expected = [f"{case.name} {case.outcome}" for case in CASES if case.outcome in ("PIXELS", "ASPECT", "CORRUPT")]
    assert (done.stdout.splitlines(), done.returncode) == (expected, 0), done.stderr


def test_the_largest_picture_fits_in_what_is_reserved_for_it() -> None:
    """64 Mpx of 1-bit PNG, a file of 8 kB: stored, within the bytes that were reserved for it."""
    script = """
import contextlib
from tests.kit import makers as m
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image

def kilobytes(name):
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith(name)]
    return int(line.split()[1])

def reserve(size):
    reserved.append(size)
    return contextlib.nullcontext()

data, reserved = m.png(m.header(8192, 8192, 1, 0), m.rows([bytes(1024)] * 8192), m.END), []
process_image(m.png(m.header(8, 8, 1, 0), m.rows([bytes(1)] * 8), m.END), ImageOptions())  # loads what is needed
before = kilobytes("VmRSS")
print(process_image(data, ImageOptions(), reserve=reserve).fixes)
print(0.1 < 1024 * (kilobytes("VmHWM") - before) / reserved[0] <= 1)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("('gray_to_rgb',)\nTrue\n", "")
