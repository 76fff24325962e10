"""Which split a stream of batches comes from: ``load`` and ``array_batches`` mark what they return.

The mark is an attribute of the object; there is no registry. It is found again through the inputs
that a TensorFlow dataset remembers. So ``benchmark(train.map(f))`` needs no other argument and
knows that something was added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from shardfeed.dataset.info import DatasetInfo, SplitInfo
from shardfeed.dataset.repeats import Repeats

_MARK = "_shardfeed_origin"
_FREE = {"_OptionsDataset", "_PrefetchDataset", "_SkipDataset", "_TakeDataset"}  # of tf.data: no work on batches

T = TypeVar("T")


@dataclass(frozen=True)
class Origin:
    """The mark.

    ``wanted``: ``tfdata.decode.ImageOptions`` of ``load``; None without TensorFlow. ``cache``: as
    ``load`` got it. ``watch``: notices that a training stream that ends is read again.
    """

    info: DatasetInfo
    split: SplitInfo
    wanted: Any = None
    cache: str | None = None
    watch: Repeats | None = None


def marked(batches: T, origin: Origin) -> T:
    """``batches``, marked with where they come from."""
    setattr(batches, _MARK, origin)
    return batches


def origin_of(batches: Any) -> tuple[Origin, bool] | None:
    """Where ``batches`` come from, and whether work was added after the reader.

    None: not marked.
    """
    added = False
    while batches is not None:
        found = vars(batches).get(_MARK) if hasattr(batches, "__dict__") else None
        if found is not None:
            return found, added
        if not type(batches).__module__.startswith("tensorflow."):
            return None
        source = getattr(batches, "_dataset", None)  # of an iterator
        if source is None:
            inputs = batches._inputs() if hasattr(batches, "_inputs") else []
            if len(inputs) != 1:
                return None
            added = added or type(batches).__name__ not in _FREE
            source = inputs[0]
        batches = source
    return None
