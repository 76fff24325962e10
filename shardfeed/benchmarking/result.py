"""What ``benchmark`` measured, and its verdict in words: which link of the chain holds the others up, and what to change."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

_NEAR = 0.8  # of a limit: the rest is the price of order, batches and threads
_BEYOND = 1.1  # of a limit: it was measured while something else ran, or for too short

_FASTER_DECODING = (
    "Use more cores, or store images that decode faster: smaller ones (--image_size), a lower --quality, or "
    "--image_format raw, which is not decoded at all but is about ten times as large."
)
_FEWER_BYTES = "store fewer bytes an image (--image_size, --quality)"
_COPYING = (
    "Nothing is decompressed: what is left is copying pixels, and cutting and resizing where crop= or image_size= say so. "
    "Use more cores, or store smaller images (--image_size)."
)
_ADVICE = {
    ("consumer", False): "Nothing to change.",
    ("consumer", True): "Nothing to change.",
    ("copying", False): _COPYING,
    ("copying", True): _COPYING,
    ("decoding", False): _FASTER_DECODING,
    ("decoding", True): _FASTER_DECODING,
    ("reading", False): f"Copy the dataset to a faster disk, or {_FEWER_BYTES}.",
    ("reading", True): "Read from a bucket in the machine's own region, call shardfeed.tune_gcs() before TensorFlow is "
    f"imported, or {_FEWER_BYTES}.",
}
_OTHER_WORK = (
    "Look for what was added behind the reader (a map, an augmentation for each image: do it on the device), and for other "
    "programs on this machine."
)
_BELOW = (
    "The stream is well below that limit though nothing was added: small batches cost more an image, and other programs on "
    "this machine take their share."
)


@dataclass(frozen=True)
class Benchmark:
    """What was measured. ``str()`` says it in words.

    Attributes:
        images_per_second: Of the stream.
        megabytes_per_second: Of stored bytes, 10**6, that the stream went through.
        cores: That this process may use.
        batch_size: Rows a batch.
        first_batch_seconds: From the start to the first batch.
        decode_limit: Images/s of decoding alone, from memory, on all cores; None where nothing was decoded.
        read_limit: Images/s of reading alone; None where nothing was read (``cache="decoded"``).
        needed: Images/s that the accelerator takes, where ``step_ms`` was given.
        remote: Records came from a bucket.
        added: Something stands behind the reader, or nobody knows what the batches went through.
        image_format: As stored.
    """

    images_per_second: float
    megabytes_per_second: float
    cores: int
    batch_size: int
    first_batch_seconds: float
    decode_limit: float | None
    read_limit: float | None
    needed: float | None
    remote: bool
    added: bool
    image_format: str

    @property
    def per_core(self) -> float:
        """Images/s and core."""
        return self.images_per_second / self.cores

    @property
    def fast_enough(self) -> bool | None:
        """Whether the stream keeps up with the accelerator; None where its step is not known."""
        return None if self.needed is None else self.images_per_second >= self.needed

    @property
    def doubtful(self) -> bool:
        """Whether the stream was faster than a limit of its own, which cannot be: one of the two was disturbed."""
        return any(self.images_per_second > _BEYOND * limit for limit in self._limits().values())

    @property
    def bottleneck(self) -> str:
        """The slowest of the chain: "consumer", "decoding", "copying", "reading" or "other work"."""
        if self.fast_enough:
            return "consumer"
        limits = self._limits()
        if not limits:
            return "other work" if self.added else "copying"
        lowest = min(limits, key=limits.__getitem__)
        if self.images_per_second < _NEAR * limits[lowest]:
            if self.remote:  # a single reader waits longer for a bucket than sixteen requests at a time
                return "reading"
            if self.added:
                return "other work"
        return lowest

    def _limits(self) -> dict[str, float]:
        work = "copying" if self.image_format == "raw" else "decoding"
        both = {"reading": self.read_limit, work: self.decode_limit}
        return {name: limit for name, limit in both.items() if limit is not None}

    def __str__(self) -> str:
        rate = self.images_per_second
        lines = [
            f"input          {_figure(rate)} img/s, {self.megabytes_per_second:,.1f} MB/s, {_figure(self.per_core)} img/s a "
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
            lines.append(f"accelerator    {_figure(self.needed)} img/s ({_figure(step)} ms a step)")
        return "\n".join([*lines, "", self._verdict(1000 * self.batch_size / rate)])

    def _verdict(self, step: float) -> str:
        doubt = (
            "Doubtful: the stream was faster than its own limit, so another program ran in between, or the time was too short. "
            "Measure again for longer (seconds). "
            if self.doubtful
            else ""
        )
        slowest = self.bottleneck
        advice = _OTHER_WORK if slowest == "other work" else _ADVICE[slowest, self.remote]
        if self.image_format == "raw":
            advice = advice.replace("--quality", "--image_format jpeg")
        if not self.added and self.images_per_second < _NEAR * self._limits().get(slowest, 0):
            advice = f"{_BELOW} {advice}"
        if self.needed is None:
            return (
                f"{doubt}Bottleneck: {slowest}. An accelerator that takes {_figure(step)} ms or more for a batch of "
                f"{self.batch_size} never waits for this input; a faster one does. {advice}"
            )
        ratio = self.images_per_second / self.needed
        if ratio >= 1:
            return (
                f"{doubt}Bottleneck: the consumer. The input is {ratio:,.1f} times as fast as the accelerator. {advice}"
            )
        return (
            f"{doubt}WARNING: the input is slower than the accelerator, which waits {1 - ratio:.0%} of the time. "
            f"Bottleneck: {slowest}. {advice}"
        )

    def to_json(self) -> str:
        """The same as JSON, for programs."""
        return json.dumps(
            {
                **asdict(self),
                "per_core": self.per_core,
                "bottleneck": self.bottleneck,
                "doubtful": self.doubtful,
                "fast_enough": self.fast_enough,
            },
            sort_keys=True,
        )


def _figure(value: float) -> str:
    """Whole from 100 on, else three digits: never "0.0" of something."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
