"""Which parts make which shard: longest-processing-time first, on exact bytes.

Parts are taken largest first and each goes to the lightest shard, so no shard exceeds the mean by more than one part
(Graham 1969). Ties go by part number, then shard index: the packing is a function of the parts alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from transforms.elements import PartFile, ShardPlan


def pack(parts: Iterable[PartFile], shards: int) -> list[tuple[PartFile, ...]]:
    """Parts of each shard, in part order; never an empty shard, so fewer than ``shards`` where parts are fewer."""
    full = [part for part in parts if part.records]
    count = min(shards, len(full))
    loads = [(0, index) for index in range(count)]
    bins: list[list[PartFile]] = [[] for _ in range(count)]
    for part in sorted(full, key=lambda p: (-p.bytes, p.part)):
        load, index = heapq.heappop(loads)
        bins[index].append(part)
        heapq.heappush(loads, (load + part.bytes, index))
    return [tuple(sorted(packed, key=lambda p: p.part)) for packed in bins]


def shard_plans(split: str, parts: Iterable[PartFile], shards: int) -> list[ShardPlan]:
    """The shards of one split."""
    packed = pack(parts, shards)
    return [ShardPlan(split, index, len(packed), parts) for index, parts in enumerate(packed)]
