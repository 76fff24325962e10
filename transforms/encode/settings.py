"""What an encoder needs besides the plan, and what makes its images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from shardfeed.transforms.encode.threads import IMAGE_TIMEOUT
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.run.state import Run

if TYPE_CHECKING:  # a process that only starts encoders loads no codec
    from shardfeed.transforms.images.options import ImageOptions
    from shardfeed.transforms.images.pixels.perceptual_hash import Samples
    from shardfeed.transforms.images.process import EncodedImage, Reserve


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """What an encoder needs besides the plan.

    ``threads``: 0 is ``default_threads``. ``encoders``: threads that encode a bucket's images,
    while ``threads`` read; 0 is one per core of this process. ``processes``: how many on this
    machine share its cores and the budgets of memory. ``previous``: a dataset whose records are
    taken for images that have not changed since; empty: none. ``image_timeout``: seconds that a
    codec may take for an image. ``max_rejected``: gives the most rejects of so many images; None:
    no limit.
    """

    sources: Sequence[str]
    options: BuildOptions
    run: Run
    threads: int
    encoders: int = 0
    processes: int = 1
    previous: str = ""
    image_timeout: int = IMAGE_TIMEOUT
    max_rejected: Callable[[int], int] | None = None


class Codec(Protocol):
    """Does what the functions of ``images/process.py`` do."""

    def process_image(
        self, data: bytes, options: ImageOptions, *, with_stats: bool, reserve: Reserve, samples: Samples | None
    ) -> EncodedImage: ...

    def take_samples(self, data: bytes, options: ImageOptions, samples: Samples, reserve: Reserve) -> None: ...
