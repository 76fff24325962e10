"""JPEGs are encoded into a file in memory of each thread; nothing of that shows."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor

from PIL import Image

from tests.promises.photos import photo
from transforms.images.encode import encode
from transforms.images.options import ImageOptions

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
    assert [encode(image, OPTIONS) for image in (*IMAGES, IMAGES[0])] == [
        in_memory(image) for image in (*IMAGES, IMAGES[0])
    ]


def test_threads_do_not_mix() -> None:
    expected = [in_memory(image) for image in IMAGES]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda number: encode(IMAGES[number % 2], OPTIONS), range(200)))
    assert made == expected * 100


def test_a_forked_process_does_not_mix_with_its_parent() -> None:
    expected = [in_memory(image) for image in IMAGES]
    encode(IMAGES[0], OPTIONS)  # this thread's file is there before the fork
    child = os.fork()
    mine = 1 if child == 0 else 0
    same = all(encode(IMAGES[mine], OPTIONS) == expected[mine] for _ in range(300))
    if child == 0:
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert same
