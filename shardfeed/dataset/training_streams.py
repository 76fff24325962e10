"""Which streams were made to train with: ``fit_args`` and ``fit`` ask what they read.

A stream that is transformed afterwards is another object, and nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from shardfeed.dataset.info import DatasetInfo


@dataclass(frozen=True, slots=True)
class StreamSource:
    """What a training stream reads.

    ``batch_size``: the global one. ``epochs``: None if it has no end. ``order``: the arguments that
    order and pixels depend on. ``reopen``: gives the same stream from so many steps on; None if it
    cannot.
    """

    info: DatasetInfo
    split: str
    batch_size: int
    epochs: int | None = None
    order: Mapping[str, Any] = field(default_factory=dict)
    reopen: Callable[[int], Any] | None = None


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
