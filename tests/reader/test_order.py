"""The pure order: blocks, permutations, windows, positions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.format.manifest import Shard
from shardfeed.sampling import order
from shardfeed.sampling.host_share import cut, host_range


def shard(index: int, *blocks: tuple[int, int]) -> Shard:
    records, size = (sum(column) for column in zip(*blocks, strict=True))
    return Shard(f"train-{index:05d}-of-00002.tfrecord", records, size, "00000000", blocks)


SHARDS = (shard(0, (4, 400), (4, 410), (1, 90)), shard(1, (4, 420), (3, 300)))


def test_blocks_know_where_they_start_in_their_shard() -> None:
    blocks = order.blocks_of(SHARDS)

    assert blocks.shard.tolist() == [0, 0, 0, 1, 1]
    assert blocks.offset.tolist() == [0, 400, 810, 0, 420]
    assert blocks.records.tolist() == [4, 4, 1, 4, 3]
    assert blocks.bytes.tolist() == [400, 410, 90, 420, 300]


def test_spans_join_neighbouring_blocks_of_a_shard_up_to_the_limit() -> None:
    assert order.spans_of(SHARDS, 810) == [
        order.Span(0, 0, 8, 810),
        order.Span(0, 810, 1, 90),
        order.Span(1, 0, 7, 720),
    ]


def test_a_block_above_the_limit_is_a_span_of_its_own() -> None:
    assert order.spans_of(SHARDS[1:], 1) == [order.Span(0, 0, 4, 420), order.Span(0, 420, 3, 300)]


@pytest.mark.parametrize(
    ("window_bytes", "expected"), [(1, 1), (324, 1), (648, 2), (972, 3), (1620, 5), (10**12, 5)], ids=str
)
def test_a_window_is_as_many_average_blocks_as_its_bytes_hold(window_bytes: int, expected: int) -> None:
    assert order.window_blocks(order.blocks_of(SHARDS), window_bytes) == expected


@given(count=st.integers(1, 500), seed=st.integers(0, 2**64 - 1))
def test_a_permutation_holds_every_number_once(count: int, seed: int) -> None:
    assert sorted(order.permutation(count, seed).tolist()) == list(range(count))


def test_golden_values_of_the_hashes_do_not_move() -> None:
    assert [hex(order.mix_one(value)) for value in (0, 1, order.GOLDEN)] == [
        "0x0",
        "0x5692161d100b05e5",
        "0xe220a8397b1dcdaf",  # the first number of SplitMix64 from state 0, as published
    ]
    assert order.permutation(8, order.epoch_seed(0, 0)).tolist() == [6, 0, 3, 1, 4, 2, 7, 5]
    assert [order.window_seed(seed, 1, 2) for seed in (0, 1, -1)] == [
        15608624037093954736,
        6619103002404655659,
        16569806065455205754,
    ]


def test_first_places_of_a_permutation_are_uniform() -> None:
    first = Counter(int(order.permutation(8, order.epoch_seed(seed, 0))[0]) for seed in range(8000))

    assert sorted(first) == list(range(8))
    assert all(abs(count - 1000) < 150 for count in first.values())  # 5 standard deviations of 30


def test_seeds_of_epochs_and_windows_are_all_different() -> None:
    seeds = {order.window_seed(s, e, w) for s in range(10) for e in range(10) for w in range(10)}

    assert len(seeds | {order.epoch_seed(s, e) for s in range(10) for e in range(10)}) == 1100


def test_windows_hold_every_block_once_and_the_last_may_be_short() -> None:
    found = [window.tolist() for window in order.windows(order.blocks_of(SHARDS), 3, 0, 2)]

    assert [len(window) for window in found] == [2, 2, 1]
    assert sorted(block for window in found for block in window) == [0, 1, 2, 3, 4]


@settings(deadline=None)
@given(seed=st.integers(-(2**63), 2**64 - 1), size=st.integers(1, 5), record=st.integers(0, 200))
def test_a_position_counts_the_records_before_it(seed: int, size: int, record: int) -> None:
    blocks = order.blocks_of(SHARDS)

    found = order.position(blocks, seed, size, record)

    windows = [int(blocks.records[window].sum()) for window in order.windows(blocks, seed, found.epoch, size)]
    assert found.epoch * 16 + sum(windows[: found.window]) + found.skip == record
    assert 0 <= found.skip < windows[found.window]


def test_offsets_stay_64_bits_wide() -> None:
    blocks = order.blocks_of((shard(0, (1, 1 << 40), (1, 7)),))

    assert blocks.offset.tolist() == [0, 1 << 40] and blocks.offset.dtype == np.int64


@settings(deadline=None)
@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=20), hosts=st.integers(1, 30))
def test_a_cut_gives_every_record_to_one_host_and_all_the_same_number_or_one_less(
    counts: list[int], hosts: int
) -> None:
    ranges = [host_range(sum(counts), host, hosts) for host in range(hosts)]
    records = [(block, i) for block, count in enumerate(counts) for i in range(count)]

    pieces = [cut(np.array(counts), mine) for mine in ranges]

    found = [
        [
            (place, i)
            for place, skip, take in zip(one.place, one.skip, one.take, strict=True)
            for i in range(skip, skip + take)
        ]
        for one in pieces
    ]
    assert [record for host in found for record in host] == records
    assert {len(host) for host in found} <= {sum(counts) // hosts, -(-sum(counts) // hosts)}
    assert all(one.take.min(initial=1) >= 1 for one in pieces)


def test_the_windows_of_one_host_are_the_windows_of_all() -> None:
    blocks = order.blocks_of(SHARDS)

    found = list(order.host_windows(blocks, 3, 5, 2, range(16)))

    assert [one.block.tolist() for one in found] == [one.tolist() for one in order.windows(blocks, 3, 5, 2)]
    assert [one.seed for one in found] == [order.window_seed(3, 5, place) for place in (0, 2, 4)]
    assert all(not one.skip.any() and one.take.tolist() == blocks.records[one.block].tolist() for one in found)


def test_spans_are_cut_at_record_numbers() -> None:
    spans = order.spans_of(SHARDS, 810)  # of 8, 1 and 7 records

    assert order.cut_spans(spans, range(3, 12)) == [
        order.Span(0, 0, 5, 810, skip=3),
        order.Span(0, 810, 1, 90),
        order.Span(1, 0, 3, 720),
    ]
    assert order.cut_spans(spans, range(3, 3)) == []
