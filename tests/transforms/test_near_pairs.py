"""Pairs of near hashes: all of them, no others, and crowds are counted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from shardfeed.transforms.duplicates import near_pairs
from shardfeed.transforms.duplicates.groups import Groups
from shardfeed.transforms.duplicates.near_pairs import join_near, popcount


def always(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return np.ones(len(one), bool)


def grouped(hashes: np.ndarray, same: near_pairs.Same = always) -> tuple[list[int], int]:
    groups = Groups(len(hashes))
    crowded = join_near(hashes, np.arange(len(hashes)), same, groups)
    return groups.all().tolist(), crowded


def compared_one_by_one(hashes: np.ndarray) -> list[int]:
    group = list(range(len(hashes)))
    for one, two in combinations(range(len(hashes)), 2):
        if int(hashes[one] ^ hashes[two]).bit_count() <= 4 and group[one] != group[two]:
            old, new = sorted((group[one], group[two]), reverse=True)
            group = [new if name == old else name for name in group]
    return group


@pytest.mark.parametrize("wrong", [0, 1, 4, 5])
def test_pairs_are_found_wherever_their_wrong_bits_lie(wrong: int) -> None:
    random = np.random.default_rng(wrong)
    hashes = random.integers(0, 2**64, 2_000, np.uint64)
    for number in range(1_000):
        bits = sum(1 << bit for bit in random.choice(64, wrong, replace=False).tolist())
        hashes[1_000 + number] = hashes[number] ^ np.uint64(bits)
    names, crowded = grouped(hashes)
    expected = list(range(1_000)) if wrong <= 4 else list(range(1_000, 2_000))
    assert (names[1_000:], crowded) == (expected, 0)


def test_groups_are_those_of_comparing_one_by_one() -> None:
    random = np.random.default_rng(1)
    hashes = random.integers(0, 2**64, 40, np.uint64).repeat(8)
    for _ in range(4):
        hashes ^= np.uint64(1) << random.integers(0, 64, len(hashes), np.uint64)
    random.shuffle(hashes)
    names, _ = grouped(hashes)
    assert names == compared_one_by_one(hashes)
    assert len(set(names)) > 40


def test_uniform_hashes_have_no_pair_and_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_pairs, "CROWDED", 50)  # per bucket of 100,000: as much as 500 of a million
    hashes = np.random.default_rng(2).integers(0, 2**64, 100_000, np.uint64)
    assert grouped(hashes) == (list(range(100_000)), 0)


def test_a_candidate_that_is_not_confirmed_is_no_pair() -> None:
    hashes = np.array([7, 7, 7, 3, 2**64 - 1], np.uint64)
    assert grouped(hashes, lambda one, two: (one + two) % 2 == 0) == ([0, 1, 0, 1, 4], 0)


def test_hashes_of_a_crowded_bucket_are_counted_and_joined_by_further_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_pairs, "CROWDED", 100)
    hashes = np.arange(2_000, dtype=np.uint64) << np.uint64(20)
    assert grouped(hashes) == ([0] * 2_000, 2_000)


def test_bits_are_counted_alike_by_an_old_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.append(
        np.random.default_rng(3).integers(0, 2**64, 1_000, np.uint64), np.array([0, 2**64 - 1], np.uint64)
    )
    expected = [int(value).bit_count() for value in values]
    assert popcount(values).tolist() == expected
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert popcount(values).tolist() == expected
