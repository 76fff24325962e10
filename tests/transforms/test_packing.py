"""Parts into shards: balanced, never empty, the same every time."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from shardfeed.transforms.elements import PartFile, Plan, ShardPlan, SplitPlan
from shardfeed.transforms.publish.packing import pack, plan_shards

PARTS = st.lists(st.integers(1, 10**7), min_size=1, max_size=200).map(
    lambda sizes: [PartFile(i, size, 1, i) for i, size in enumerate(sizes)]
)


def _loads(packed: list[tuple[PartFile, ...]]) -> list[int]:
    return [sum(part.bytes for part in shard) for shard in packed]


@given(PARTS, st.integers(1, 300), st.randoms(use_true_random=False))
def test_each_part_is_in_one_shard_and_shards_are_full_ordered_and_balanced_however_parts_arrive(
    parts: list[PartFile], shards: int, rng: random.Random
) -> None:
    packed = pack(rng.sample(parts, len(parts)), shards)

    assert packed == pack(parts, shards)
    assert sorted((part for shard in packed for part in shard), key=lambda part: part.part) == parts
    assert all(list(shard) == sorted(shard, key=lambda part: part.part) for shard in packed)
    assert len(packed) == min(shards, len(parts))
    assert all(packed)
    loads = _loads(packed)
    assert max(loads) * len(loads) <= sum(loads) + len(loads) * max(part.bytes for part in parts)


def test_ties_go_by_part_number_then_by_shard() -> None:
    parts = [PartFile(i, 10, 1, i) for i in range(4)]

    # Backwards it would be [[0, 3], [2], [1]].
    assert [[part.part for part in shard] for shard in pack(parts, 3)] == [[0, 3], [1], [2]]


def test_sizes_from_1_to_1000_are_balanced_within_two_percent() -> None:
    rng = random.Random(0)
    parts = [PartFile(i, round(1_000 * 1_000 ** rng.random()), 1, i) for i in range(16 * 16)]

    loads = _loads(pack(parts, 16))
    assert max(loads) * 16 <= sum(loads) * 1.02


def test_parts_without_records_are_left_out() -> None:
    parts = [PartFile(0, 0, 0, 0), PartFile(1, 10, 1, 1), PartFile(2, 0, 0, 0)]

    assert pack(parts, 3) == [(PartFile(1, 10, 1, 1),)]
    assert pack(parts[:1], 3) == []


def test_shards_know_their_place() -> None:
    parts = [PartFile(i, 10 - i, 1, i) for i in range(3)]
    plan = Plan("f", ("cat",), {}, 3, {"test": SplitPlan(3, 2, 3)})

    assert plan_shards("test", parts, plan, 1) == [
        ShardPlan("test", 0, 2, (parts[0],)),
        ShardPlan("test", 1, 2, (parts[1], parts[2])),
    ]
