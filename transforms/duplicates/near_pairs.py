"""All pairs of pictures whose 64-bit hashes differ in at most four bits, without comparing all.

A hash is cut into six bands. Four wrong bits touch at most four of them, so any near pair has two
equal bands. The hashes are therefore sorted fifteen times, each time by another two bands, and only
neighbours with the same two are compared. For ten million hashes that is a bucket of four.

Where a bucket has more than ``CROWDED`` hashes, it is divided by a third equal band, then a fourth
and a fifth. A pair that differs in more bands than that can then be missed, unless others between
the two join them. So the hashes of such buckets are counted.

Equal hashes are collapsed first: a million blank pages are one hash.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.transforms.duplicates.groups import Groups, Numbers

NEAR = 4  # bits of 64; pairs within are candidates
CONFIRMED = 48  # bits of 256; candidates within are pairs (see benchmarks/results.md)
CROWDED = 512  # distinct hashes per bucket
_BANDS = (11, 11, 11, 11, 10, 10)  # bits
_EQUAL = 2  # bands that a near pair shares at least
_ROUNDS = 64  # pictures of one hash that are no pair with each other, and are compared with others
_CHUNK = 1 << 20  # pairs that are looked at together

Hashes = NDArray[np.uint64]
Same = Callable[[Numbers, Numbers], NDArray[np.bool_]]
"""Whether the pictures ``one[i]`` and ``two[i]`` are the same, for all i."""


def join_near(hashes: Hashes, numbers: Numbers, same: Same, groups: Groups) -> int:
    """Joins near pairs that ``same`` confirms; ``hashes``: of the pictures ``numbers``, ascending.

    Returns how many were not compared with all others: hashes in crowded buckets, and pictures of
    one hash that were left over.
    """
    order = np.argsort(hashes, kind="stable")
    leaders, crowded = join_equal(hashes[order], numbers[order], same, groups)
    values, first, count = np.unique(leaders[0], return_index=True, return_counts=True)
    in_crowd = np.zeros(len(values), bool)
    for one, two in _candidates(values, in_crowd):
        for begin in range(0, len(one), _CHUNK):
            piece = slice(begin, begin + _CHUNK)
            a, b = np.searchsorted(values, one[piece]), np.searchsorted(values, two[piece])
            for left, right in _combinations(first, count, a, b):
                confirm(leaders[1][left], leaders[1][right], same, groups)
    return crowded + int(in_crowd.sum())


def join_equal(keys: Hashes, numbers: Numbers, same: Same, groups: Groups) -> tuple[tuple[Hashes, Numbers], int]:
    """Joins pictures of equal keys with the first of them, if ``same`` confirms it.

    Those that are not confirmed are compared with the first of them, and so on. ``keys`` are
    sorted. Returns keys and numbers of all that came first, sorted by key, and how many were left
    in the end.
    """
    first_keys, first_numbers = [], []
    for _ in range(_ROUNDS):
        if not len(keys):
            break
        begins = np.append(True, keys[1:] != keys[:-1])
        leader = np.flatnonzero(begins)[np.cumsum(begins) - 1]
        first_keys.append(keys[begins])
        first_numbers.append(numbers[begins])
        rest = np.flatnonzero(~begins)
        alike = np.zeros(len(rest), bool)
        for begin in range(0, len(rest), _CHUNK):
            piece = rest[begin : begin + _CHUNK]
            alike[begin : begin + _CHUNK] = same(numbers[leader[piece]], numbers[piece])
        groups.join(numbers[leader[rest[alike]]], numbers[rest[alike]])
        keys, numbers = keys[rest[~alike]], numbers[rest[~alike]]
    found = np.concatenate([np.empty(0, np.uint64), *first_keys])
    order = np.argsort(found, kind="stable")
    return (found[order], np.concatenate([np.empty(0, np.int64), *first_numbers])[order]), len(keys)


def confirm(one: Numbers, two: Numbers, same: Same, groups: Groups) -> None:
    """Joins the pairs that are not in one group yet and that ``same`` confirms."""
    apart = groups.names(one) != groups.names(two)
    one, two = one[apart], two[apart]
    alike = same(one, two)
    groups.join(one[alike], two[alike])


def popcount(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Number of bits that are set in each uint64."""
    if hasattr(np, "bitwise_count"):  # since NumPy 2.0
        return np.bitwise_count(values)
    left = values - ((values >> np.uint64(1)) & np.uint64(0x5555555555555555))
    left = (left & np.uint64(0x3333333333333333)) + ((left >> np.uint64(2)) & np.uint64(0x3333333333333333))
    left = (left + (left >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((left * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint8)


def _candidates(values: Hashes, in_crowd: NDArray[np.bool_]) -> Iterator[tuple[Hashes, Hashes]]:
    """Near pairs of distinct ``values``, which are sorted; some come more than once.

    ``in_crowd``: set for the values in crowded buckets.
    """
    for bands in itertools.combinations(range(len(_BANDS)), _EQUAL):
        yield from _neighbours(values, bands, values, in_crowd)


def _neighbours(
    some: Hashes, bands: tuple[int, ...], values: Hashes, in_crowd: NDArray[np.bool_]
) -> Iterator[tuple[Hashes, Hashes]]:
    """Near pairs of ``some`` whose ``bands`` are equal."""
    order = (*bands, *(band for band in range(len(_BANDS)) if band not in bands))
    turned = _with_bands_first(some, order)
    turned.sort()
    key = turned >> np.uint64(64 - sum(_BANDS[band] for band in bands))
    begins = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    sizes = np.diff(np.append(begins, len(key)))
    if len(bands) < len(_BANDS) - 1 and (sizes > CROWDED).any():
        divided = _with_bands_back(turned[np.repeat(sizes > CROWDED, sizes)], order)
        in_crowd[np.searchsorted(values, divided)] = True
        for band in range(bands[-1] + 1, len(_BANDS)):  # a set of bands comes once, in ascending order
            yield from _neighbours(divided, (*bands, band), values, in_crowd)
        begins, sizes = begins[sizes <= CROWDED], sizes[sizes <= CROWDED]
    begins, sizes = begins[sizes > 1], sizes[sizes > 1]
    left = np.repeat(sizes - 1, sizes)  # how many of its bucket come behind each value
    at = np.repeat(begins, sizes) + np.arange(len(left)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    left -= at - np.repeat(begins, sizes)
    for step in itertools.count(1):
        at, left = at[left >= step], left[left >= step]
        if not len(at):
            return
        near = at[popcount(turned[at] ^ turned[at + step]) <= NEAR]
        if len(near):
            yield _with_bands_back(turned[near], order), _with_bands_back(turned[near + step], order)


def _with_bands_first(values: Hashes, order: tuple[int, ...]) -> Hashes:
    """The values with their bands in another order, the first one on top."""
    return _moved(values, [_SHIFTS[band] for band in order], _shifts(order), order)


def _with_bands_back(values: Hashes, order: tuple[int, ...]) -> Hashes:
    """What ``_with_bands_first`` was given."""
    return _moved(values, _shifts(order), [_SHIFTS[band] for band in order], order)


def _moved(values: Hashes, before: list[int], after: list[int], order: tuple[int, ...]) -> Hashes:
    moved = np.zeros_like(values)
    for band, low, to in zip(order, before, after, strict=True):
        moved |= (values >> np.uint64(low) & np.uint64((1 << _BANDS[band]) - 1)) << np.uint64(to)
    return moved


def _shifts(order: tuple[int, ...]) -> list[int]:
    """Lowest bit of each band if they lie in this order."""
    ends = itertools.accumulate(_BANDS[band] for band in order)
    return [64 - end for end in ends]


_SHIFTS = _shifts(tuple(range(len(_BANDS))))


def _combinations(first: Numbers, count: Numbers, a: Numbers, b: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """All pairs of pictures of the hashes a[i] and b[i], some at a time.

    The pictures of hash h are ``first[h]`` to ``first[h] + count[h] - 1``.
    """
    total = count[a] * count[b]
    if (total == 1).all():
        yield first[a], first[b]
        return
    ends = np.cumsum(total)
    for begin in range(0, int(ends[-1]), _CHUNK):
        number = np.arange(begin, min(begin + _CHUNK, int(ends[-1])))
        pair = np.searchsorted(ends, number, side="right")
        within = number - (ends[pair] - total[pair])
        yield first[a[pair]] + within // count[b[pair]], first[b[pair]] + within % count[b[pair]]
