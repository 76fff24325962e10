"""Which parts make which shard: longest processing time first, on exact bytes.

The largest part goes first, and each goes to the lightest shard. So no shard exceeds the mean by
more than one part (Graham 1969). Ties go by part number, then by shard index: the packing is a
function of the parts alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from shardfeed.transforms.elements import PartFile, PartResult, Plan, ShardPlan
from shardfeed.transforms.planning.plan import shards_for_bytes


def pack(parts: Iterable[PartFile], shards: int) -> list[tuple[PartFile, ...]]:
    """Parts of each shard, in part order.

    A shard is never empty: with fewer parts than ``shards`` there are fewer shards.
    """
    full = [part for part in parts if part.records]
    count = min(shards, len(full))
    loads = [(0, index) for index in range(count)]
    bins: list[list[PartFile]] = [[] for _ in range(count)]
    for part in sorted(full, key=lambda p: (-p.bytes, p.part)):
        load, index = heapq.heappop(loads)
        bins[index].append(part)
        heapq.heappush(loads, (load + part.bytes, index))
    return [tuple(sorted(packed, key=lambda p: p.part)) for packed in bins]


def part_file(part: PartResult) -> PartFile:
    """What packing needs to know of a part."""
    return PartFile(part.part, part.bytes, part.records, part.crc32c)


def plan_shards(split: str, parts: Sequence[PartFile], plan: Plan, shard_bytes: int) -> list[ShardPlan]:
    """The shards of a split. Their number is ``--num_shards``, else it follows from the bytes."""
    size, records = sum(part.bytes for part in parts), sum(part.records for part in parts)
    packed = pack(parts, plan.splits[split].shards or shards_for_bytes(size, records, shard_bytes))
    return [ShardPlan(split, index, len(packed), parts) for index, parts in enumerate(packed)]
