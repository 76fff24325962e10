"""Nothing is lost or doubled, the limit on rejects holds, no class or split is emptied."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import pytest

from shardfeed.transforms.elements import Counts, PartResult, Plan, SplitPlan, SplitTotals, Totals
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.publish.verdict import counts_of, judge, sum_counts

PLAN = Plan("f", ("cat", "dog"), {}, 1_000, {"test": SplitPlan(16, 1, 200), "train": SplitPlan(16, 1, 800)})
TOTALS = Totals({"test": SplitTotals(200, 0, 0, 22, {}), "train": SplitTotals(800, 0, 0, 88, {})})
GOOD = Counts(
    images={"test": 200, "train": 800},
    key_sums={"test": 22, "train": 88},
    rejected={"EMPTY": 3, "CORRUPT": 7},
    class_counts={"test": {"cat": 100, "dog": 98}, "train": {"cat": 792, "dog": 0}},
)


@pytest.mark.parametrize("limit", [Limit(count=10), Limit(), Limit(share=Fraction(1, 100), floor=0)])
def test_a_whole_build_within_the_limit_is_good(limit: Limit) -> None:
    verdict = judge(GOOD, TOTALS, PLAN, limit)

    assert (verdict.code, verdict.message, verdict.counts) == (0, "", GOOD)


ONLY_TRAIN = {"train": {"cat": 400, "dog": 400}}


@pytest.mark.parametrize(
    ("changed", "split", "listed", "images", "wanted", "found"),
    [
        ({"images": {"test": 199, "train": 800}}, "test", 200, 199, 22, 22),
        ({"images": {"test": 200, "train": 801}}, "train", 800, 801, 88, 88),
        ({"images": {"train": 800}, "key_sums": {"train": 88}, "class_counts": ONLY_TRAIN}, "test", 200, 0, 22, 0),
        ({"key_sums": {"test": 22, "train": 89}}, "train", 800, 800, 88, 89),
    ],
    ids=["one lost", "one doubled", "a split lost", "one exchanged for another"],
)
def test_what_was_listed_must_come_out_and_rejects_are_no_reason_then(
    changed: dict[str, object], split: str, listed: int, images: int, wanted: int, found: int
) -> None:
    verdict = judge(replace(GOOD, **changed), TOTALS, PLAN, Limit(count=0))  # type: ignore[arg-type]

    assert (verdict.code, verdict.message) == (
        4,
        f"{split}: {listed} images were listed, but {images} came out of the parts (key sums {wanted:032x} and {found:032x}). "
        "Nothing was published. Rerun the same command; if it happens again, the engine loses or doubles elements: use another "
        "--runner.",
    )


@pytest.mark.parametrize("limit", [Limit(count=9), Limit(count=0), Limit(share=Fraction(1, 101), floor=0)])
def test_one_reject_more_than_allowed_stops_the_build(limit: Limit) -> None:
    verdict = judge(GOOD, TOTALS, PLAN, limit)

    assert (verdict.code, verdict.message) == (
        3,
        f"10 of 1,000 images cannot be used (CORRUPT 7, EMPTY 3); --max_rejected allows {limit.images(1_000)}. Nothing was "
        "published. Look at the rejects. Rerun with --max_rejected 10 to go on without them: the finished work is kept and "
        "is not done again. Or repair or remove those images, then rerun with --discard_incomplete.",
    )


OTHER_REMEDIES = {
    "nothing left of a class": (
        replace(GOOD, class_counts={"train": {"cat": 990}, "test": {}}),
        9,
        "10 of 1,000 images cannot be used (CORRUPT 7, EMPTY 3); --max_rejected allows 9. Nothing was published. Look at the "
        "rejects. A higher limit would not help: a class or split would be left without an image. Repair those images, then "
        "rerun with --discard_incomplete.",
    ),
    "changed while it was read": (
        replace(GOOD, rejected={"CHANGED": 1, "EMPTY": 9}),
        0,
        "10 of 1,000 images cannot be used (EMPTY 9, CHANGED 1); --max_rejected allows 0. Nothing was published. The input was "
        "changed while it was read: rerun with --discard_incomplete, to begin with what is there now.",
    ),
    "a class without a record": (
        replace(GOOD, class_counts={"test": {"cat": 198}, "train": {"cat": 792}}),
        1_000,
        "no image of 1 class can be used: dog. Rejected: CORRUPT 7, EMPTY 3. Nothing was published. Repair those images, or "
        "take their folders out of --input, then rerun with --discard_incomplete.",
    ),
    "a split without a record": (
        replace(
            GOOD, class_counts={"train": {"cat": 1, "dog": 1}}, rejects_by_part=(("test", 0, GOOD.images["test"]),)
        ),
        1_000,
        "no image of split test can be used (CORRUPT 7, EMPTY 3). Nothing was published. Repair them, then rerun with "
        "--discard_incomplete.",
    ),
}


@pytest.mark.parametrize(("counts", "limit", "message"), OTHER_REMEDIES.values(), ids=list(OTHER_REMEDIES))
def test_a_higher_limit_is_not_always_the_remedy(counts: Counts, limit: int, message: str) -> None:
    verdict = judge(counts, TOTALS, PLAN, Limit(count=limit))

    assert (verdict.code, verdict.message) == (3, message)


def test_ten_classes_without_a_record_are_named_and_the_others_are_counted() -> None:
    plan = replace(PLAN, classes=(*(f"c{number:02}" for number in range(12)), *PLAN.classes))

    message = judge(GOOD, TOTALS, plan, Limit(count=1_000)).message

    assert message.startswith(
        "no image of 12 classes can be used: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 2 more. Rejected"
    )


PARTS = [
    PartResult("train", 2, 50, 3, 1, 2**128 - 1, {"EMPTY": 1}, {"upscaled": 2}, {"cat": 3}, (4, (1, 2, 3), (4, 5, 6))),
    PartResult("train", 0, 20, 2, 2, 3, {"EMPTY": 1, "NAME": 4}, {}, {"dog": 2}, None),
    PartResult("test", 1, 10, 1, 3, 5, {}, {"upscaled": 1}, {"cat": 1}, (1, (1, 1, 1), (1, 1, 1))),
]


def test_counts_of_parts_add_up() -> None:
    assert sum_counts(map(counts_of, PARTS)) == Counts(
        images={"train": 11, "test": 1},
        key_sums={"train": 2, "test": 5},
        rejected={"EMPTY": 2, "NAME": 4},
        fixes={"upscaled": 3},
        class_counts={"train": {"cat": 3, "dog": 2}, "test": {"cat": 1}},
        stats=(5, (2, 3, 4), (5, 6, 7)),
        rejects_by_part=(("train", 0, 5), ("train", 2, 1)),
    )


def test_the_order_of_adding_does_not_matter() -> None:
    for one, two, three in permutations(map(counts_of, PARTS)):
        assert sum_counts([sum_counts([one, two]), sum_counts([three]), Counts()]) == sum_counts(map(counts_of, PARTS))
