"""``benchmark``: how fast batches come here, what this machine could do, and the bottleneck.

A rate alone says nothing. So two limits are measured in the same minute: decoding records that are
already in memory, on all cores, and reading blocks without decoding them. The lower limit is the
bottleneck, unless the stream stays far below it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from numbers import Real
from typing import Any

from shardfeed import storage
from shardfeed.arguments import height_width, unexpected
from shardfeed.benchmarking.result import Arrivals, Benchmark, rate_of
from shardfeed.dataset.info import DatasetInfo, opened
from shardfeed.dataset.repeats import not_counted
from shardfeed.errors import UsageError, clip
from shardfeed.runtime import cores

_MOST = 1e12  # seconds or milliseconds; a much larger integer does not fit into a float
_EXPECTED = "expected what load or array_batches gives, or what you made of it"


def benchmark(
    batches: Iterable[Any],
    dataset: DatasetInfo | str | os.PathLike[str],
    split: str = "train",
    *,
    seconds: float = 5.0,
    step_ms: float | None = None,
    image_size: int | tuple[int, int] | None = None,
    crop: str | None = None,
) -> Benchmark:
    """Measure ``batches`` for ``seconds``, then reading and decoding alone for half as long each.

        train = shardfeed.load(info, "train", 128)
        print(shardfeed.benchmark(train, info, step_ms=22))

    Args:
        batches: What ``load`` or ``array_batches`` gave, or what you made of it. The images are the
            first element of a batch. A stream that ends is started again; an iterator is read to
            its end at most.
        dataset: The dataset that the batches come from.
        split: Its split.
        seconds: Seconds of reading the stream.
        step_ms: Milliseconds that your accelerator takes for one of these batches.
        image_size: As given to ``load``. The decoding limit resizes too.
        crop: As given to ``load``. The decoding limit crops too.

    Raises:
        UsageError: no batches, too few of them, or batches without images; a wrong argument.
        DatasetError: as the reader.
    """
    check_times(seconds, step_ms)
    size = None if image_size is None else height_width("image_size", image_size)
    found = opened(dataset)
    chosen = found.splits[split]
    with not_counted():
        start = time.perf_counter()
        passes = _passes(batches, seconds)
    first, rows = passes[0][0]
    rate = rate_of(passes)
    if rate is None:
        raise UsageError(
            "the stream ends after 1 batch, so its speed cannot be measured: pass what load gave rather than iter(…) of it, "
            "an iterator of at least 2 batches, or a smaller batch_size."
        )
    from shardfeed.benchmarking import limits  # imports NumPy

    tensorflow = type(batches).__module__.startswith("tensorflow.")
    read, decode = limits.measured(found, chosen, seconds / 2, tensorflow=tensorflow, image_size=size, crop=crop)
    return Benchmark(
        images_per_second=rate,
        megabytes_per_second=rate * chosen.bytes / chosen.num_records / 1e6,
        cores=cores(),
        batch_size=rows,
        first_batch_seconds=first - start,
        decode_limit=decode,
        read_limit=read,
        needed=None if step_ms is None else rows * 1000 / float(step_ms),
        remote=storage.is_remote(found.url),
        image_format=found.manifest.image.format,
    )


def check_times(seconds: object, step_ms: object) -> None:
    """Raise ``UsageError`` unless both are numbers above 0; ``step_ms`` may also be None."""
    for name, value in (("seconds", seconds), ("step_ms", 1 if step_ms is None else step_ms)):
        # NumPy's numbers are Real too.
        if isinstance(value, bool) or not (isinstance(value, Real) and 0 < value < _MOST):  # type: ignore[operator]
            raise unexpected(name, value, "a number above 0 and below 1e12")


def _passes(batches: Iterable[Any], seconds: float) -> list[Arrivals]:
    """The batches of each pass, until ``seconds`` after the first, or to the end of an iterator."""
    passes: list[Arrivals] = []
    until = math.inf
    while time.perf_counter() < until:
        try:
            stream = iter(batches)
        except TypeError:
            raise UsageError(f"batches={clip(repr(batches), 80)}: {_EXPECTED}.") from None
        arrivals: Arrivals = []
        for batch in stream:
            now = time.perf_counter()
            arrivals.append((now, _rows(batch)))
            until = min(until, now + seconds)
            if now >= until and len(arrivals) > 1:
                break
        if not arrivals:
            raise UsageError(f"there are no batches to measure: {_EXPECTED}.")
        passes.append(arrivals)
        if stream is batches:  # an iterator: there is no second pass
            break
    return passes


def _rows(batch: Any) -> int:
    """Number of images in a batch."""
    images = batch
    if isinstance(batch, tuple | list):
        images = batch[0] if batch else None
    elif isinstance(batch, dict):
        images = next(iter(batch.values()), None)
    try:
        return int(images.shape[0])
    except (AttributeError, IndexError, TypeError, ValueError):
        raise UsageError(
            f"a batch is {type(batch).__name__}, whose images cannot be counted: {_EXPECTED}: (images, labels), a dict or "
            "images alone, as one array with a row per image."
        ) from None
