"""Since when each thread of a process has had an image in a codec, for another process to see.

The times lie in memory that both processes map. So they can be read while the codec holds the
interpreter's lock, and after the process has crashed.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from shardfeed.transforms.encode.settings import Codec

if TYPE_CHECKING:
    from shardfeed.transforms.images.options import ImageOptions
    from shardfeed.transforms.images.pixels.perceptual_hash import Samples
    from shardfeed.transforms.images.process import EncodedImage, Reserve

_BYTES = 4096  # 512 threads: as many as --threads allows


def shared_file() -> IO[bytes]:
    """A file without a name, to be mapped by both processes."""
    # Not os.memfd_create, which is not in every Python.
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    file.truncate(_BYTES)
    return file


def longest(memory: mmap.mmap) -> float:
    """Seconds that the slowest image has been in the codec of ``memory``; 0 if there is none."""
    now = time.monotonic()
    with memoryview(memory) as whole, whole.cast("d") as times:
        return max((now - since for since in times if since), default=0.0)


class Watch:
    """A codec for ``SliceEncoder`` that notes in ``memory`` since when an image has been in it."""

    def __init__(self, codec: Codec, memory: mmap.mmap) -> None:
        self._codec, self._since = codec, memoryview(memory).cast("d")
        self._own, self._threads = threading.local(), itertools.count()

    def process_image(
        self, data: bytes, options: ImageOptions, *, with_stats: bool, reserve: Reserve, samples: Samples | None
    ) -> EncodedImage:
        """Makes an image."""
        with self._watched(reserve) as waiting:
            return self._codec.process_image(data, options, with_stats=with_stats, reserve=waiting, samples=samples)

    def take_samples(self, data: bytes, options: ImageOptions, samples: Samples, reserve: Reserve) -> None:
        """Takes the samples of an image that is stored already."""
        with self._watched(reserve) as waiting:
            self._codec.take_samples(data, options, samples, waiting)

    @contextlib.contextmanager
    def _watched(self, reserve: Reserve) -> Iterator[Reserve]:
        """Notes an image from now to the end of the block, except while it waits in ``reserve``."""
        slot = self._slot()

        @contextlib.contextmanager
        def waiting(size: int) -> Iterator[None]:  # for memory that others hold: no fault of the image
            self._since[slot] = 0.0
            with reserve(size):
                self._since[slot] = time.monotonic()
                yield

        self._since[slot] = time.monotonic()
        try:
            yield waiting
        finally:
            self._since[slot] = 0.0

    def _slot(self) -> int:
        try:
            slot: int = self._own.slot
        except AttributeError:
            slot = self._own.slot = next(self._threads) % len(self._since)
        return slot
