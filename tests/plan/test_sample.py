"""The images that a forecast is made from: which, and what is concluded from them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from operator import le
from statistics import fmean

import pytest

from shardfeed.format.hashing import hash64
from shardfeed.pipeline.plan.sample import Sampler, SplitSample, Stratum, Trial, allot, conclude
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, RefBatch, pack_ref

KEYS = [b"cat/%d.jpg" % number for number in range(300)]


def _ref(key: bytes, size: int = 1, root: int = 0) -> bytes:
    return pack_ref(ImageRef(root, key, Stat(size, 1)))


def _batches(keys: list[bytes], size: int) -> list[RefBatch]:
    refs = [_ref(key) for key in keys]
    return [RefBatch("train", b"".join(refs[i : i + size])) for i in range(0, len(refs), size)]


def _read(images: int, trials: Sequence[Trial]) -> Stratum:
    """A stratum of which some images were read."""
    return Stratum("train", images, trials=list(trials))


def _of_sizes(sizes: list[int]) -> SplitSample:
    """A sample of one stratum of 10,000 images."""
    return SplitSample([_read(10_000, [Trial(size) for size in sizes])])


@pytest.mark.parametrize("size", [1, 7, 300], ids=["single", "small batches", "one batch"])
def test_the_smallest_hashes_are_chosen_in_whatever_order_they_are_listed(size: int) -> None:
    sampler, keys = Sampler(splits=1, images=20), list(KEYS)
    random.Random(size).shuffle(keys)
    for batch in _batches(keys, size):
        sampler.add(batch)

    smallest = sorted(KEYS, key=lambda key: hash64("plan", 0, key))[:20]
    assert [(stratum.split, ref.key) for stratum, ref in sampler.chosen()] == [("train", key) for key in smallest]


def test_splits_take_turns_so_that_any_beginning_is_a_sample() -> None:
    sampler = Sampler(splits=2, images=4)
    for split, count in (("train", 3), ("validation", 1)):
        sampler.add(RefBatch(split, b"".join(map(_ref, KEYS[:count]))))

    assert [stratum.split for stratum, _ in sampler.chosen()] == ["train", "validation", "train", "train"]


def test_strata_are_suffixes_and_sizes_to_a_factor_of_two_and_each_is_in_any_beginning() -> None:
    sampler = Sampler(splits=1, images=20)
    refs = [_ref(key, 1_000) for key in KEYS]
    refs += [_ref(b"cat.v2/%d" % number, 1_000) for number in range(9)]
    refs += [_ref(b"cat/a.PNG", 1_000), _ref(b"cat/b.png", 1_023), _ref(b"cat/c.png", 1_024), _ref(b"cat/empty.png", 0)]
    sampler.add(RefBatch("train", b"".join(refs)))

    first = {stratum: ref.key for stratum, ref in sampler.chosen()[:5]}
    assert sorted(stratum.images for stratum in first) == [1, 1, 2, 9, 300]
    assert [stratum.images for stratum, key in first.items() if b"." not in key.rpartition(b"/")[2]] == [9]


def test_what_cannot_be_labelled_is_not_sampled() -> None:
    sampler = Sampler(splits=1)
    sampler.add(RefBatch("", _ref(b"loose.jpg"), fault="no_class"))

    assert sampler.chosen() == []


def test_a_key_of_two_inputs_is_sampled_twice() -> None:
    """The build refuses it, but only once it sees both in one part."""
    sampler = Sampler(splits=1, images=2)
    sampler.add(RefBatch("train", b"".join(_ref(b"cat/1.jpg", root=root) for root in (1, 0, 2))))

    assert [ref.key for _, ref in sampler.chosen()] == [b"cat/1.jpg"] * 2


@pytest.mark.parametrize(
    ("strata", "read"),
    [
        ([(900, 9_000), (100, 9_000)], [70, 30]),
        ([(900, 9_000), (10, 90_000)], [90, 10]),
        ([(60, 60), (40, 90_000)], [60, 40]),
        ([(10**8, 10**12), (1, 1), (2, 0)], [100, 1, 1]),
        ([(500, 0)], [100]),
    ],
    ids=["half by each", "a whole stratum leaves the rest", "all", "one at least", "empty files"],
)
def test_half_is_read_in_proportion_to_images_and_half_to_bytes(strata: list[tuple[int, int]], read: list[int]) -> None:
    listed = [Stratum("train", images, size) for images, size in strata]

    counts = dict(allot(listed, 100))
    assert [counts[stratum] for stratum in listed] == read


def test_no_stratum_goes_unread_where_there_are_more_than_reads() -> None:
    assert [count for _, count in allot([Stratum("train", 5, 50 * i) for i in range(300)], 100)][-1] == 1


def test_rejects_are_sure_where_chance_cannot_be_the_reason() -> None:
    good, bad = Trial(100), Trial(0, "EMPTY")

    def sure(images: int, *trials: Trial) -> int:
        return SplitSample([_read(images, trials)]).sure_rejects

    assert sure(3, bad, bad, good) == 2  # all were read
    assert sure(10**6, bad, bad, good) == 2  # those that were read, whatever the others are
    # 500 of 10,000 read, 50 bad: 1,000 ± 4 x 10,000 x sqrt(0.1016 x 0.8984 / 500 x 0.95) = 526.6
    assert sure(10_000, *[bad] * 50, *[good] * 450) == 474
    # all of 400 bad: 4 x 10,000 x sqrt(401/402 x 1/402 / 400 x 0.96) = 97.5
    assert sure(10_000, *[bad] * 400) == 9_903
    assert sure(10_000, *[good] * 400) == 0
    # what changed meanwhile may be whole the next time
    assert sure(3, bad, Trial(0, "CHANGED"), good) == 1
    assert sure(10_000, *[Trial(0, "CHANGED")] * 400) == 0


def test_totals_are_means_times_images_by_stratum_and_rejects_count_as_nothing() -> None:
    small = _read(40, [Trial(100), Trial(200), Trial(0, "FORMAT"), Trial(300)])
    large = _read(2, [Trial(5_000), Trial(6_000)])
    sample = SplitSample([small, large])

    assert (sample.images, sample.rejects, sample.bytes) == (42, 10, 6_000 + 11_000)


def test_no_record_is_promised_only_where_no_image_could_be_used() -> None:
    bad, good = Trial(0, "FORMAT"), Trial(100)

    assert SplitSample([_read(1_000, [bad] * 10), _read(7, [bad])]).rejects == 1_007
    assert SplitSample([_read(10**6, [bad] * 10), _read(1, [good])]).rejects == 10**6
    assert SplitSample([_read(3, [bad, bad, good])]).rejects == 2


def test_the_error_shrinks_with_the_sample_and_is_none_for_the_whole() -> None:
    whole = SplitSample([_read(10, [Trial(90), Trial(110)] * 5)])

    assert whole.error == 0.0
    assert 0.05 < _of_sizes([90, 110] * 5).error < 0.08
    assert 0.015 < _of_sizes([90, 110] * 50).error < 0.025


def test_one_image_of_many_says_little() -> None:
    assert _of_sizes([100]).error == pytest.approx(2, rel=1e-3)
    assert _of_sizes([0]).error == 0.0


def test_the_error_covers_the_truth() -> None:
    """A hundred listings of photos among logos: two standard errors cover 95 %, not far more."""
    off, said = [], []
    for seed in range(100):
        rng, sampler = random.Random(seed), Sampler(splits=1, images=60)
        sizes = {b"c/%d-%d.png" % (seed, i): round(rng.lognormvariate(6, 0.3)) for i in range(380)}
        sizes |= {b"c/%d-%d.jpg" % (seed, i): round(rng.lognormvariate(9, 0.6)) for i in range(20)}
        records = {key: round(size * rng.lognormvariate(0, 0.5)) for key, size in sizes.items()}
        sampler.add(RefBatch("train", b"".join(_ref(key, size) for key, size in sizes.items())))
        chosen = sampler.chosen()
        found = conclude(chosen, [Trial(records[ref.key]) for _, ref in chosen], 1.0).splits["train"]
        off.append(abs(found.bytes / sum(records.values()) - 1))
        said.append(found.error)

    assert sum(map(le, off, said)) >= 90
    assert fmean(said) < 3 * math.sqrt(fmean(share**2 for share in off))


def test_times_are_those_of_the_input_not_of_the_sample() -> None:
    """Read on two threads: two of 90 images, a second each, and two of 10 that take ten seconds."""
    quick, slow = Stratum("train", 90), Stratum("train", 10)
    ref = ImageRef(0, b"cat/1.jpg", Stat(1, 1))
    chosen = [(stratum, ref) for stratum in (quick, slow, quick, slow, quick)]
    fast, late = Trial(1, cpu=0.5, seconds=1.0), Trial(0, "FORMAT", cpu=5.0, seconds=10.0)

    found = conclude(chosen, [fast, late, fast, late, None], 11.0)

    assert (len(found.trials), found.rejected) == (4, {"FORMAT": 2})
    assert found.cpu_seconds == pytest.approx((90 * 0.5 + 10 * 5.0) / 100)
    assert found.rate == pytest.approx(100 / ((90 * 1.0 + 10 * 10.0) / 2))
