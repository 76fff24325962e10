"""``benchmark``: how fast batches come here, against what this machine could do, and what holds them up.

The one decision: a rate alone says nothing, so it is put beside two limits that are measured in the same minute: decoding
records that lie in memory, on all cores, as the stream decodes, cuts and resizes them; and reading blocks without decoding
them. The lower limit is the bottleneck, unless work was added behind the reader and the stream stays far below both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any

from shardfeed import storage
from shardfeed.arguments import height_width, positive
from shardfeed.benchmarking.result import Benchmark
from shardfeed.dataset.info import DatasetInfo, info
from shardfeed.dataset.provenance import Origin, origin_of
from shardfeed.dataset.repeats import Repeats
from shardfeed.errors import UsageError, clip
from shardfeed.runtime import cores

_MOST = 1e12  # seconds or milliseconds; a larger integer may be none of Python's floats
_EXPECTED = "expected what load or array_batches gives, or what you made of it"


def benchmark(
    batches: Iterable[Any],
    dataset: DatasetInfo | str | os.PathLike[str] | None = None,
    split: str | None = None,
    *,
    seconds: float = 5.0,
    step_ms: float | None = None,
) -> Benchmark:
    """Measure ``batches`` for ``seconds``, then for half as long each what decoding and reading alone can do.

        train = shardfeed.load(info, "train", 128)
        print(shardfeed.benchmark(train, step_ms=22))

    Args:
        batches: What ``load`` or ``array_batches`` gave, or what you made of it; the first element of a batch is the images.
        dataset: The dataset that they come from. Needed where ``batches`` do not say: a generator, a list.
        split: Its split; by default that of ``batches``, else "train".
        seconds: How long the stream is read. An iterator is read to its end at most; a stream that ends is started again.
        step_ms: Milliseconds that your accelerator takes for one of these batches.

    Raises:
        UsageError: no batches, too few of them, or none of images; arguments that cannot be.
        DatasetError: as the reader.
    """
    _check(seconds, step_ms)
    origin, added = _origin(batches, dataset, split)
    found, chosen = origin.info, origin.split
    first, rows, rate = _stream_rate(batches, seconds, origin.watch)
    from shardfeed.benchmarking import limits  # with NumPy, which who has batches has

    read, decode = limits.measured(origin, seconds / 2, tensorflow=type(batches).__module__.startswith("tensorflow."))
    return Benchmark(
        images_per_second=rate,
        megabytes_per_second=rate * chosen.bytes / chosen.num_records / 1e6,
        cores=cores(),
        batch_size=rows,
        first_batch_seconds=first,
        decode_limit=decode,
        read_limit=read,
        needed=None if step_ms is None else rows * 1000 / float(step_ms),
        remote=storage.is_remote(found.url) and origin.cache is None,
        added=added,
        image_format=found.manifest.image.format,
    )


def benchmark_reader(
    directory: str,
    split: str | None,
    batch_size: int,
    *,
    reader: str,
    seconds: float,
    step_ms: float | None,
    image_size: tuple[int, int] | None = None,
    crop: str | None = None,
) -> Benchmark:
    """``benchmark`` of a training stream of ``split`` (by default the first) as ``reader``, "tensorflow" or "arrays", gives it.

    Raises:
        UsageError: as ``benchmark``; the reader is not installed, or cannot cut and resize.
    """
    import shardfeed

    _check(seconds, step_ms)
    positive("batch_size", batch_size)
    if image_size is not None:
        height_width("image_size", image_size)
    options: dict[str, Any] = {
        name: value for name, value in (("image_size", image_size), ("crop", crop)) if value is not None
    }
    if options and reader == "arrays":
        raise UsageError(f"--{next(iter(options))}: array_batches neither cuts nor resizes. Use --reader tensorflow.")
    found = info(directory)
    chosen = next(iter(found.splits)) if split is None else found.splits[split].name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # what TensorFlow notes about this CPU is not the point here
    try:
        read: Any = shardfeed.load if reader == "tensorflow" else shardfeed.array_batches
    except ImportError as error:
        other = ". Without TensorFlow, measure the NumPy reader: --reader arrays" if reader == "tensorflow" else ""
        raise UsageError(f"{error}{other}") from None
    stream = read(found, chosen, batch_size, training=True, host=(0, 1), **options)
    return benchmark(stream, seconds=seconds, step_ms=step_ms)


def _check(seconds: object, step_ms: object) -> None:
    for name, value in (("seconds", seconds), ("step_ms", step_ms)):
        if value is None and name == "step_ms":
            continue
        # NumPy's numbers are Real too.
        if isinstance(value, bool) or not (isinstance(value, Real) and 0 < value < _MOST):  # type: ignore[operator]
            raise UsageError(f"{name}={clip(repr(value))}: expected a number above 0 and below 1e12.")


def _origin(
    batches: Any, dataset: DatasetInfo | str | os.PathLike[str] | None, split: str | None
) -> tuple[Origin, bool]:
    """Where ``batches`` come from, and whether work was added or may have been."""
    if dataset is not None and not isinstance(dataset, DatasetInfo | str | os.PathLike):
        raise UsageError(f"dataset={clip(repr(dataset))}: expected what shardfeed.info gives, a folder or gs://….")
    known = origin_of(batches)
    found = info(dataset) if isinstance(dataset, str | os.PathLike) else dataset
    if known is None:
        if found is None:
            raise UsageError(
                f"batches of {type(batches).__name__} do not say which dataset they come from. Pass it: "
                "shardfeed.benchmark(batches, info)."
            )
        return Origin(found, found.splits["train" if split is None else split]), True
    origin, added = known
    url = None if found is None else found.url
    for name, given, expected in (("dataset", url, origin.info.url), ("split", split, origin.split.name)):
        if given is not None and given != expected:
            raise UsageError(f"{name}={clip(given)}: these batches come from {clip(expected)}. Leave {name} out.")
    return origin, added


def _stream_rate(batches: Iterable[Any], seconds: float, watch: Repeats | None) -> tuple[float, int, float]:
    """(Seconds to the first batch, its rows, images/s after it)."""
    start = time.perf_counter()
    arrivals = []
    for one in _passes(batches, seconds):
        arrivals.append(one)
        if watch is not None:
            watch.forget()
    if not arrivals:
        raise UsageError(f"there are no batches to measure: {_EXPECTED}.")
    first, rows = arrivals[0][0]
    from shardfeed.benchmarking import limits

    rate = limits.rate_of(arrivals)
    if rate is None and len(arrivals) > 1:  # one batch a pass: how often a pass can be started is all there is
        rate = sum(len(one) * rows for one in arrivals) / (arrivals[-1][-1][0] - start)
    if rate is None:
        raise UsageError(
            "the stream ended after 1 batch and cannot be started again: pass what load gave rather than iter(…) of it, "
            "or an iterator of at least 2 batches."
        )
    return first - start, rows, rate


def _passes(batches: Iterable[Any], seconds: float) -> Iterator[list[tuple[float, int]]]:
    """When batches came, and their rows, by pass over ``batches``, until ``seconds`` after the first or to the end."""
    until: float | None = None
    while until is None or time.perf_counter() < until:
        found: list[tuple[float, int]] = []
        try:
            stream = iter(batches)
        except TypeError:
            raise UsageError(f"batches={clip(repr(batches), 80)}: {_EXPECTED}.") from None
        for batch in stream:
            now = time.perf_counter()
            found.append((now, _rows(batch)))
            until = now + seconds if until is None else until
            if now >= until and (len(found) > 1 or stream is not batches):
                break
        if not found:  # an iterator that is used up
            return
        yield found
        if stream is batches:
            return


def _rows(batch: Any) -> int:
    images = (
        (batch[0] if batch else None)
        if isinstance(batch, tuple | list)
        else next(iter(batch.values()), None)
        if isinstance(batch, dict)
        else batch
    )
    try:
        return int(images.shape[0])  # type: ignore[union-attr]
    except (AttributeError, IndexError, TypeError, ValueError):
        raise UsageError(
            f"a batch is {type(batch).__name__}, whose images cannot be counted: {_EXPECTED}: (images, labels), a dict or "
            "images alone, as one array with a row an image."
        ) from None
