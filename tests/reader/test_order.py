"""The pure order: blocks, permutations, windows, positions, shares of hosts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.format.manifest import Shard
from shardfeed.sampling import order
from shardfeed.sampling.blocks import Block, blocks_in
from shardfeed.sampling.host_share import host_range, runs_in
from shardfeed.sampling.streams import host_streams


def shard(index: int, *blocks: tuple[int, int]) -> Shard:
    records, size = (sum(column) for column in zip(*blocks, strict=True))
    return Shard(f"train-{index:05d}-of-00002.tfrecord", records, size, "00000000", blocks)


SHARDS = (shard(0, (4, 400), (4, 410), (1, 90)), shard(1, (4, 420), (3, 300)))
ALONE = host_streams(16, 5, 0, 1)  # one stream, that of the only host


def test_blocks_know_where_they_start_in_their_shard() -> None:
    assert list(blocks_in(SHARDS)) == [
        Block(SHARDS[0], 0, 0, 4, 400),
        Block(SHARDS[0], 4, 400, 4, 410),
        Block(SHARDS[0], 8, 810, 1, 90),
        Block(SHARDS[1], 0, 0, 4, 420),
        Block(SHARDS[1], 4, 420, 3, 300),
    ]


def test_offsets_stay_64_bits_wide() -> None:
    blocks = blocks_in((shard(0, (1, 1 << 40), (1, 7)),))

    assert blocks.offset.tolist() == [0, 1 << 40] and blocks.offset.dtype == np.int64


@pytest.mark.parametrize(
    ("window_bytes", "expected"), [(1, 1), (324, 1), (648, 2), (972, 3), (1620, 5), (10**12, 5)], ids=str
)
def test_a_window_is_as_many_average_blocks_as_its_bytes_hold(window_bytes: int, expected: int) -> None:
    assert order.window_blocks(blocks_in(SHARDS), window_bytes, ALONE) == expected


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


def test_seeds_of_epochs_and_windows_are_all_different() -> None:
    seeds = {order.window_seed(s, e, w) for s in range(10) for e in range(10) for w in range(10)}

    assert len(seeds | {order.epoch_seed(s, e) for s in range(10) for e in range(10)}) == 1100


def test_windows_are_the_permuted_blocks_in_turn_each_hashed_by_its_first_position() -> None:
    blocks = blocks_in(SHARDS)

    found = list(order.host_windows(blocks, 3, 5, 2, ALONE))

    permuted = order.permutation(5, order.epoch_seed(3, 5)).tolist()
    assert [one.runs.block.tolist() for one in found] == [permuted[:2], permuted[2:4], permuted[4:]]
    firsts = np.cumsum([0, *(int(one.runs.take.sum()) for one in found)]).tolist()
    assert [one.seed for one in found] == [order.window_seed(3, 5, first) for first in firsts[:-1]]
    assert [(one.rows.start - 80, one.rows.stop - 80) for one in found] == list(pairwise(firsts))
    assert all(not one.runs.skip.any() and not one.skip for one in found)
    assert all(one.runs.take.tolist() == blocks.records[one.runs.block].tolist() for one in found)


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=20), hosts=st.integers(1, 30))
def test_every_record_is_one_hosts_and_all_have_the_same_number_or_one_less(counts: list[int], hosts: int) -> None:
    records = [(block, i) for block, count in enumerate(counts) for i in range(count)]

    shares = [runs_in(np.array(counts), host_range(sum(counts), host, hosts)) for host in range(hosts)]

    found = [
        [
            (block, i)
            for block, skip, take in zip(runs.block, runs.skip, runs.take, strict=True)
            for i in range(skip, skip + take)
        ]
        for runs in shares
    ]
    assert [record for host in found for record in host] == records
    assert {len(host) for host in found} <= {sum(counts) // hosts, -(-sum(counts) // hosts)}
    assert all(runs.take.min(initial=1) >= 1 for runs in shares)
