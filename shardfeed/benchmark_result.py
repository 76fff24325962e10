"""What ``benchmark`` measured, and its verdict in words: which link of the chain holds the others up, and what to change."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

_NEAR = 0.8  # of a limit: the rest is the price of order, batches and threads

_FASTER_DECODING = (
    "Use more cores, or store images that decode faster: smaller ones (--image_size), a lower --quality, or "
    "--image_format raw, which is not decoded at all but is about ten times as large."
)
_FEWER_BYTES = "store fewer bytes an image (--image_size, --quality)"
_ADVICE = {
    ("consumer", False): "Nothing to change.",
    ("consumer", True): "Nothing to change.",
    ("decoding", False): _FASTER_DECODING,
    ("decoding", True): _FASTER_DECODING,
    ("reading", False): f"Copy the dataset to a faster disk, or {_FEWER_BYTES}.",
    ("reading", True): "Read from a bucket in the machine's own region, call shardfeed.tune_gcs() before TensorFlow is "
    f"imported, or {_FEWER_BYTES}.",
    (
        "other work",
        False,
    ): "Look for what was added behind the reader (a map, an augmentation for each image: do it on the "
    "device), and for other programs on this machine.",
}


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
        read_limit: Images/s of reading alone.
        needed: Images/s that the accelerator takes, where ``step_ms`` was given.
        remote: The dataset lies in a bucket.
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

    @property
    def per_core(self) -> float:
        """Images/s and core."""
        return self.images_per_second / self.cores

    @property
    def fast_enough(self) -> bool | None:
        """Whether the stream keeps up with the accelerator; None where its step is not known."""
        return None if self.needed is None else self.images_per_second >= self.needed

    @property
    def bottleneck(self) -> str:
        """The slowest of the chain: "consumer", "decoding", "reading" or "other work"."""
        if self.fast_enough:
            return "consumer"
        if self.read_limit * _NEAR <= min(self.images_per_second, self.decode_limit or self.read_limit):
            return "reading"
        if self.decode_limit is not None and self.images_per_second >= _NEAR * self.decode_limit:
            return "decoding"
        return "reading" if self.remote else "other work"

    def __str__(self) -> str:
        rate, step = self.images_per_second, 1000 * self.batch_size / self.images_per_second
        lines = [
            f"input          {rate:,.0f} img/s, {self.megabytes_per_second:,.1f} MB/s, {self.per_core:,.0f} img/s a core "
            f"({self.cores} cores)",
            f"first batch    {self.first_batch_seconds:.2f} s",
        ]
        if self.decode_limit is not None:
            lines.append(
                f"decoding alone {self.decode_limit:,.0f} img/s: the stream reaches {rate / self.decode_limit:.2f} of it"
            )
        lines.append(
            f"reading alone  {self.read_limit:,.0f} img/s: the stream reaches {rate / self.read_limit:.2f} of it"
        )
        if self.needed is not None:
            lines.append(
                f"accelerator    {self.needed:,.0f} img/s ({1000 * self.batch_size / self.needed:,.1f} ms a step)"
            )
        return "\n".join([*lines, "", self._verdict(step)])

    def _verdict(self, step: float) -> str:
        advice = _ADVICE[self.bottleneck, self.remote]
        if self.needed is None:
            return (
                f"Bottleneck: {self.bottleneck}. An accelerator that takes {step:,.1f} ms or more for a batch of "
                f"{self.batch_size} never waits for this input; a faster one does. {advice}"
            )
        ratio = self.images_per_second / self.needed
        if ratio >= 1:
            return f"Bottleneck: the consumer. The input is {ratio:,.1f} times as fast as the accelerator. {advice}"
        return (
            f"WARNING: the input is slower than the accelerator, which waits {1 - ratio:.0%} of the time. "
            f"Bottleneck: {self.bottleneck}. {advice}"
        )

    def to_json(self) -> str:
        """The same as JSON, for programs."""
        return json.dumps(
            {**asdict(self), "per_core": self.per_core, "bottleneck": self.bottleneck, "fast_enough": self.fast_enough},
            sort_keys=True,
        )
