"""What a listing adds up to does not depend on order, batches or workers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from shardfeed.format.hashing import MASK128, hash128, key_hash
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, RefBatch, SplitTotals, Totals, pack_ref, unpack_refs
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.estimate import estimate_work, record_estimate
from shardfeed.transforms.planning.totals import add_totals, count_batch, label_batch, listing_of

OPTIONS = BuildOptions(splits="train=0.5,test=0.5")
REFS = [ImageRef(0, b"%s/%d.jpg" % (name, i), Stat(100 + i, 7)) for name in (b"cat", b"dog") for i in range(20)]


def _batch(refs: list[ImageRef], skipped: dict[str, int] | None = None) -> RefBatch:
    return RefBatch("", b"".join(map(pack_ref, refs)), skipped or {})


def _totals(batches: list[RefBatch], options: BuildOptions = OPTIONS) -> Totals:
    return add_totals(count_batch(labelled, options) for batch in batches for labelled in label_batch(batch, options))


@pytest.mark.parametrize("pieces", [1, 2, 3, 8])
def test_order_and_batches_do_not_matter(pieces: int) -> None:
    rng = random.Random(pieces)
    refs = rng.sample(REFS, len(REFS))
    batches = [_batch(refs[i::pieces], {"hidden": 1} if i == 0 else {}) for i in range(pieces)]
    partial = [_totals(batches[i : i + 2]) for i in range(0, pieces, 2)]
    rng.shuffle(partial)
    given = [totals.to_bytes() for totals in partial]

    assert add_totals(partial) == _totals([_batch(REFS, {"hidden": 1})])
    assert [totals.to_bytes() for totals in partial] == given


def test_sums_are_what_they_say() -> None:
    options = BuildOptions()
    refs = REFS[18:22]

    assert _totals([_batch(refs, {"suffix": 2})], options) == Totals(
        splits={
            "train": SplitTotals(
                images=4,
                bytes=118 + 119 + 100 + 101,
                estimate=4 * record_estimate(options.image)(100),
                key_sum=sum(key_hash(ref.key) for ref in refs) & MASK128,
                by_class={"cat": (2, 237), "dog": (2, 201)},
                work=sum(estimate_work(ref.key, ref.stat.size) for ref in refs),
            )
        },
        digest=sum(
            hash128("list", 0, ref.stat.size.to_bytes(8, "little") + (7).to_bytes(8, "little") + ref.key)
            for ref in refs
        )
        & MASK128,
        skipped={"suffix": 2},
        faults={},
    )


@pytest.mark.parametrize(
    "changed",
    [
        [*REFS[1:], REFS[0]._replace(key=b"cat/other.jpg")],
        [*REFS[1:], REFS[0]._replace(stat=Stat(101, 7))],
        [*REFS[1:], REFS[0]._replace(stat=Stat(100, 8))],
        REFS[1:],
        [*REFS, REFS[0]],
        [*REFS[2:], REFS[0]._replace(key=REFS[1].key), REFS[1]._replace(key=REFS[0].key)],
    ],
    ids=["key", "size", "version", "one less", "one twice", "two names swapped"],
)
def test_any_change_of_the_listing_changes_the_digest(changed: list[ImageRef]) -> None:
    assert _totals([_batch(changed)]).digest != _totals([_batch(REFS)]).digest


def test_the_digest_is_of_names_sizes_and_versions_alone_and_what_is_listed_twice_does_not_cancel_out() -> None:
    whole = _totals([_batch(REFS)], BuildOptions())
    known = [ref._replace(root=3, stat=ref.stat._replace(crc32c=5)) for ref in REFS]
    twice = _totals([_batch([*REFS, REFS[0], REFS[0]])], BuildOptions()).splits["train"]

    assert _totals([_batch(known)]).digest == whole.digest
    assert twice.key_sum != whole.splits["train"].key_sum


def test_what_cannot_be_labelled_is_counted_with_a_few_examples() -> None:
    bad = [ImageRef(0, b"%d.jpg" % i, Stat(1, 1)) for i in range(9)]
    odd = [ImageRef(0, b"caf\xe9/1.jpg", Stat(1, 1))]

    totals = _totals([_batch([bad[8], *bad[:3]]), _batch(bad[3:8] + odd), _batch(REFS)])

    assert totals.faults == {
        "no_class": (9, ("0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg")),
        "class_not_utf8": (1, ("caf\\xe9/1.jpg",)),
    }
    assert totals.candidates == len(REFS)


def test_labelled_batches_hold_the_references_as_they_were() -> None:
    batches = label_batch(_batch(REFS, {"hidden": 1}), OPTIONS)

    assert [(batch.split, batch.skipped) for batch in batches] == [("test", {}), ("train", {}), ("", {"hidden": 1})]
    assert {ref for batch in batches for ref in unpack_refs(batch.refs)} == set(REFS)


def test_the_manifest_shows_the_listing_by_class_and_by_split() -> None:
    totals = Totals(
        {
            "test": SplitTotals(1, 5, 0, 0, {"cat": (1, 5)}),
            "train": SplitTotals(3, 6, 0, 0, {"cat": (1, 1), "dog": (2, 5)}),
        },
        digest=255,
    )

    assert listing_of(totals) == {
        "digest": "000000000000000000000000000000ff",
        "by_class": {"cat": [2, 6], "dog": [2, 5]},
        "by_split": {"test": {"cat": [1, 5]}, "train": {"cat": [1, 1], "dog": [2, 5]}},
    }


def test_faulty_folders_are_counted_and_are_no_images() -> None:
    folders = RefBatch("", b"".join(pack_ref(ImageRef(0, b"%d" % i, Stat(0, 0))) for i in range(7)), fault="no_images")

    totals = _totals([folders, _batch(REFS)])
    assert totals == replace(_totals([_batch(REFS)]), faults={"no_images": (7, ("0", "1", "2", "3", "4"))})
