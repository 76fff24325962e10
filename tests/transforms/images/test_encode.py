"""JPEGs are encoded into a file in memory of each thread; nothing of that shows."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from shardfeed.transforms.images.encode import encode
from shardfeed.transforms.images.options import ImageOptions
from tests.kit.images import photo

OPTIONS = ImageOptions(format="jpeg", quality=90)
IMAGES = [
    Image.open(io.BytesIO(photo(seed, size=size))).convert("RGB") for seed, size in enumerate([(300, 200), (8, 8)])
]


def in_memory(image: Image.Image) -> bytes:
    """The same as Pillow writes it into a buffer."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90, subsampling=2)
    return buffer.getvalue()


def test_a_smaller_image_after_a_larger_one_has_nothing_of_it() -> None:
    images = (*IMAGES, IMAGES[0])
    assert [encode(image, OPTIONS) for image in images] == [in_memory(image) for image in images]


def test_threads_do_not_mix() -> None:
    expected = [in_memory(image) for image in IMAGES]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda number: encode(IMAGES[number % 2], OPTIONS), range(200)))
    assert made == expected * 100


def test_a_forked_process_does_not_mix_with_its_parent() -> None:
    code = f"from {__name__} import *; fork_and_encode()"  # there are no other threads to fork
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})


def fork_and_encode() -> None:
    """Encodes an image here and another in a forked process at once; both must be right."""
    expected = [in_memory(image) for image in IMAGES]
    encode(IMAGES[0], OPTIONS)  # this thread's file is there before the fork
    child = os.fork()
    mine = 1 if child == 0 else 0
    same = all(encode(IMAGES[mine], OPTIONS) == expected[mine] for _ in range(100))
    if child == 0:
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert same


@pytest.mark.parametrize("short", [1, 1000])
def test_a_limit_on_the_size_of_files_cuts_no_image(short: int) -> None:
    expected = in_memory(IMAGES[0])
    with limited(resource.RLIMIT_FSIZE, len(expected) - short):
        assert encode(IMAGES[0], OPTIONS) == expected


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSYS])
def test_where_no_file_in_memory_can_be_made_memory_is_used(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "memfd_create", refused)
    with ThreadPoolExecutor(1) as pool:  # a thread that has no file yet
        assert pool.submit(encode, IMAGES[0], OPTIONS).result() == in_memory(IMAGES[0])


def test_a_system_without_files_in_memory_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert encode(IMAGES[0], OPTIONS) == in_memory(IMAGES[0])


def test_a_thread_that_ends_leaves_no_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(encode, IMAGES[0], OPTIONS).result()
    assert len(set(os.listdir("/proc/self/fd")) - before) <= 1  # that of the listing itself


@contextlib.contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    """A lower limit of this process, for the length of a with block."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))
