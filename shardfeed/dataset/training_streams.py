"""Which streams were made to train with: ``fit_args(train)`` asks for the split and the batch size.

A stream that is transformed afterwards is another object, and nothing is known of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from shardfeed.dataset.info import DatasetInfo


@dataclass(frozen=True, slots=True)
class StreamSource:
    """What a training stream reads; ``batch_size`` is the global one."""

    info: DatasetInfo
    split: str
    batch_size: int


_sources: WeakKeyDictionary[Any, StreamSource] = WeakKeyDictionary()


def remember(stream: object, source: StreamSource) -> None:
    """Keeps ``source`` as long as ``stream`` lives."""
    _sources[stream] = source


def source_of(stream: object) -> StreamSource | None:
    """The source of a stream that was remembered, else None."""
    try:
        return _sources.get(stream)
    except TypeError:  # it has no hash, or cannot be referred to weakly
        return None


def batch_sizes(info: DatasetInfo, split: str) -> set[int]:
    """Batch sizes of the living streams of a split of ``info``."""
    return {source.batch_size for source in _sources.values() if (source.info, source.split) == (info, split)}
