"""The images that a forecast is made from: which, and what is concluded from them."""

from __future__ import annotations

import random

import pytest

from pipeline.sample import Sampler, SplitSample
from shardfeed.hashing import hash64
from shardfeed.storage.base import Stat
from transforms.elements import ImageRef, RefBatch, pack_ref

KEYS = [b"cat/%d.jpg" % number for number in range(300)]


def _batches(keys: list[bytes], size: int) -> list[RefBatch]:
    refs = [pack_ref(ImageRef(0, key, Stat(1, 1))) for key in keys]
    return [RefBatch("train", b"".join(refs[i : i + size])) for i in range(0, len(refs), size)]


@pytest.mark.parametrize("size", [1, 7, 300], ids=["single", "small batches", "one batch"])
def test_the_smallest_hashes_are_chosen_in_whatever_order_they_are_listed(size: int) -> None:
    sampler, keys = Sampler(splits=1, images=20), list(KEYS)
    random.Random(size).shuffle(keys)
    for batch in _batches(keys, size):
        sampler.add(batch)

    smallest = sorted(KEYS, key=lambda key: hash64("plan", 0, key))[:20]
    assert [(split, ref.key) for split, ref in sampler.chosen()] == [("train", key) for key in smallest]


def test_splits_take_turns_so_that_any_beginning_is_a_sample() -> None:
    sampler = Sampler(splits=2, images=4)
    for split, count in (("train", 3), ("validation", 1)):
        refs = [pack_ref(ImageRef(0, key, Stat(1, 1))) for key in KEYS[:count]]
        sampler.add(RefBatch(split, b"".join(refs)))

    assert [split for split, _ in sampler.chosen()] == ["train", "validation", "train", "train"]


def test_what_cannot_be_labelled_is_not_sampled() -> None:
    sampler = Sampler(splits=1)
    sampler.add(RefBatch("?no_class", pack_ref(ImageRef(0, b"loose.jpg", Stat(1, 1)))))

    assert sampler.chosen() == []


def test_totals_are_means_times_images_and_rejects_count_as_nothing() -> None:
    sample = SplitSample([100, 200, 0, 300], {"FORMAT": 1})

    assert (sample.written, sample.total(40)) == (0.75, 6_000)


def test_the_error_shrinks_with_the_sample_and_is_none_for_the_whole() -> None:
    few, many = SplitSample([90, 110] * 5), SplitSample([90, 110] * 50)

    assert few.error(10) == 0.0
    assert 0.05 < few.error(10_000) < 0.08
    assert 0.015 < many.error(10_000) < 0.025
