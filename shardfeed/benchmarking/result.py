"""What ``benchmark`` measured, and its verdict in words: the bottleneck, and what to change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

_NEAR = 0.8  # of a limit: the rest is the price of order, batches and threads
_BEYOND = 1.1  # of a limit: impossible, unless one of the two was disturbed or the stream has a cache
# The first batches of a pass were made in advance, so they are not measured: this share of it,
# at most _WARM_MOST batches.
_WARM = 0.25
_WARM_MOST = 8

_ADVICE = {
    "consumer": "Nothing to change.",
    "decoding": "Use more cores, or store images that decode faster: smaller ones (--image_size), a lower --quality, or "
    "--image_format raw, which is not decoded at all but is about ten times as large.",
    "reading": "Copy the dataset to a faster disk, or store fewer bytes per image (--image_size, --quality, or --image_format "
    "jpeg in place of raw or png).",
    "other work": "Neither reading nor decoding alone explains the speed. Small batches cost more per image. Work behind the "
    "reader takes its share (a map, an augmentation of each image: do it on the device), and so do other programs.",
}
_RAW_DECODING = (
    "Nothing is decompressed: what is left is copying, cropping and resizing pixels. Use more cores, or store smaller images "
    "(--image_size)."
)
_BUCKET_READING = (
    "Read from a bucket in the machine's own region, copy the dataset to a local disk (cache=), or store fewer bytes per image "
    "(--image_size, --quality)."
)

Arrivals = list[tuple[float, int]]
"""(seconds on a clock, number of images) of each batch of one pass."""


def rate_of(passes: Sequence[Arrivals]) -> float | None:
    """Images/s of ``passes`` without their first batches, which lay ready; None if none is left."""
    images, seconds = 0, 0.0
    for arrivals in passes:
        skipped = min(int(len(arrivals) * _WARM), _WARM_MOST)
        images += sum(rows for _, rows in arrivals[skipped + 1 :])
        seconds += arrivals[-1][0] - arrivals[skipped][0]
    return images / seconds if images and seconds > 0 else None


@dataclass(frozen=True)
class Benchmark:
    """What was measured. ``str()`` says it in words.

    Attributes:
        images_per_second: Of the stream.
        megabytes_per_second: Stored bytes behind these images, in 10**6 per second.
        cores: Number of CPU cores this process may use.
        batch_size: Rows per batch.
        first_batch_seconds: From the start to the first batch.
        decode_limit: Images/s of decoding alone, on all cores; None if images vary in size.
        read_limit: Images/s of reading alone.
        needed: Images/s that the accelerator takes; None without ``step_ms``.
        remote: The dataset is in a bucket.
        image_format: As stored.
    """

    images_per_second: float
    megabytes_per_second: float
    cores: int
    batch_size: int
    first_batch_seconds: float
    decode_limit: float | None
    read_limit: float
    needed: float | None
    remote: bool
    image_format: str

    @property
    def per_core(self) -> float:
        """Images/s per core."""
        return self.images_per_second / self.cores

    @property
    def fast_enough(self) -> bool | None:
        """Whether the stream keeps up with the accelerator; None if its step is not known."""
        return None if self.needed is None else self.images_per_second >= self.needed

    @property
    def bottleneck(self) -> str:
        """What holds the others up: "consumer", "decoding", "reading" or "other work"."""
        if self.fast_enough:
            return "consumer"
        lowest, name = self._lowest_limit()
        if self.images_per_second >= _NEAR * lowest:
            return name
        # A reader may have fewer requests in flight than the reading limit, which has sixteen.
        return "reading" if self.remote else "other work"

    def _lowest_limit(self) -> tuple[float, str]:
        reading = (self.read_limit, "reading")
        return reading if self.decode_limit is None else min(reading, (self.decode_limit, "decoding"))

    def __str__(self) -> str:
        rate = self.images_per_second
        lines = [
            f"input          {_figure(rate)} img/s, {self.megabytes_per_second:,.1f} MB/s, {_figure(self.per_core)} img/s per "
            f"core ({self.cores} cores)",
            f"first batch    {self.first_batch_seconds:.2f} s",
        ]
        for name, limit in (("decoding", self.decode_limit), ("reading", self.read_limit)):
            if limit is not None:
                lines.append(
                    f"{name + ' alone':<14} {_figure(limit)} img/s: the stream reaches {rate / limit:.2f} of it"
                )
        if self.needed is not None:
            step = 1000 * self.batch_size / self.needed
            lines.append(f"accelerator    {_figure(self.needed)} img/s ({_figure(step)} ms per step)")
        return "\n".join([*lines, "", self._verdict()])

    def _advice(self) -> str:
        if self.bottleneck == "decoding" and self.image_format == "raw":
            return _RAW_DECODING
        if self.bottleneck == "reading" and self.remote:
            return _BUCKET_READING
        return _ADVICE[self.bottleneck]

    def _verdict(self) -> str:
        slowest, advice = self.bottleneck, self._advice()
        doubt = ""
        if self.images_per_second > _BEYOND * self._lowest_limit()[0]:
            doubt = (
                "Doubtful: the stream was faster than its own limit. Either it has a cache, and the limit does not hold for it; "
                "or another program ran in between, or the time was too short: measure again for longer (seconds). "
            )
        if self.needed is None:
            step = 1000 * self.batch_size / self.images_per_second
            return (
                f"{doubt}Bottleneck: {slowest}. An accelerator that takes {_figure(step)} ms or more per batch of "
                f"{self.batch_size} never waits for this input; a faster one does. {advice}"
            )
        ratio = self.images_per_second / self.needed
        if self.fast_enough:
            return (
                f"{doubt}Bottleneck: the consumer. The input is {ratio:,.1f} times as fast as the accelerator. {advice}"
            )
        return (
            f"{doubt}WARNING: the input is slower than the accelerator, which waits {1 - ratio:.0%} of the time. "
            f"Bottleneck: {slowest}. {advice}"
        )

    def to_json(self) -> str:
        """The same as JSON, for programs."""
        verdict = {"per_core": self.per_core, "bottleneck": self.bottleneck, "fast_enough": self.fast_enough}
        return json.dumps({**asdict(self), **verdict}, sort_keys=True)


def _figure(value: float) -> str:
    """A whole number from 100 on, else three digits, so a small figure never reads "0.0"."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
