"""Every element comes back from its bytes as it was, whatever names a user gives."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.storage import Stat
from shardfeed.transforms.elements import (
    Counts,
    Duplicates,
    Element,
    FileResult,
    ImageRef,
    PartFile,
    PartResult,
    Plan,
    RefBatch,
    RejectsPlan,
    ShardPlan,
    ShardResult,
    SplitPlan,
    SplitTotals,
    Totals,
    Verdict,
    pack_ref,
    unpack_keys,
    unpack_refs,
)
from shardfeed.transforms.metadata.row import Row, labels_of_row, pack_table_row, unpack_table_row

STATS = st.builds(
    Stat, st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.none() | st.integers(0, 2**32 - 1)
)
REFS = st.lists(
    st.builds(ImageRef, st.integers(0, 0xFFFF), st.binary(max_size=30), STATS, st.binary(max_size=9)), max_size=4
)


TEXTS = st.text(max_size=9)
COLUMNS = st.lists(st.tuples(TEXTS, st.binary(max_size=30)), max_size=3).map(tuple)


@given(st.builds(Row, st.lists(TEXTS, max_size=3).map(tuple), TEXTS, TEXTS, COLUMNS))
def test_a_row_of_a_table_comes_back(row: Row) -> None:
    packed = pack_table_row(row)

    assert unpack_table_row(packed) == row
    assert labels_of_row(packed) == row.labels


@given(REFS)
def test_references_are_packed_without_loss(refs: Sequence[ImageRef]) -> None:
    packed = [pack_ref(ref) for ref in refs]

    assert list(unpack_refs(b"".join(packed))) == refs
    assert list(unpack_keys(b"".join(packed))) == [
        (ref.key, ref.row, piece) for ref, piece in zip(refs, packed, strict=True)
    ]


def test_a_reference_costs_25_bytes_and_its_key_of_at_most_64_kib_less_one_byte() -> None:
    ref = ImageRef(0, b"x" * 0xFFFF, Stat(1, 1, 1))

    packed = pack_ref(ref)
    assert len(packed) == 25 + 0xFFFF
    assert list(unpack_refs(packed)) == [ref]


COUNTS = Counts(
    images={"train": 3},
    key_sums={"train": 2**127},
    rejected={"EMPTY": 1},
    fixes={"upscaled": 2},
    class_counts={"train": {"cät\n": 2}},
    stats=(7, (1, 2, 2**70), (4, 5, 6)),
    rejects_by_part=(("train", 3, 1),),
)


@pytest.mark.parametrize(
    "element",
    [
        RefBatch("träin\n", b"\0refs\xff", {"hidden": 2}, "no_class"),
        Totals(),
        Totals(
            {"train": SplitTotals(1, 2, 3, 2**128 - 1, {"cat": (1, 2)}), "test": SplitTotals()},
            2**128 - 1,
            {"hidden": 4},
            {"no_class": (9, ("1.jpg", "2.jpg"))},
        ),
        Plan("f", ("cat", "dög"), {"pillow": "12"}, 5, {"train": SplitPlan(16, None, 4), "test": SplitPlan(16, 1, 1)}),
        # Names of splits that are also names of fields.
        Plan("f", (), {}, 3, {"parts": SplitPlan(1, 1, 1), "images": SplitPlan(3, None, 3)}),
        PartResult("train", 3, 100, 2, 2**32 - 1, 2**128 - 1, {"EMPTY": 1}, {}, {"cat": 2}, (4, (1, 2, 3), (4, 5, 6))),
        PartResult("train", 3, 0, 0, 0, 0, {}, {}, {}, None),
        COUNTS,
        Verdict(3, "too many", COUNTS),
        PartFile(1, 2, 3, 4),
        ShardPlan("train", 0, 2, (PartFile(1, 2, 3, 4), PartFile(5, 6, 7, 8))),
        ShardResult("train", "train-00000-of-00001.tfrecord", 3, 100, 5, ((1, 50), (2, 50)), 9, 6, 7, 8, "ab" * 16),
        RejectsPlan("rejects-00000-of-00001.jsonl", (("train", 3, 0, 2), ("test", 1, 4, 9))),
        FileResult("classes.txt", 3, 4),
        Duplicates({"exact": 2}, (FileResult("duplicates.jsonl", 3, 4),), 5, 6),
    ],
    ids=lambda element: type(element).__name__,
)
def test_an_element_comes_back_from_its_bytes(element: Element | RefBatch) -> None:
    back = type(element).from_bytes(element.to_bytes())

    assert back == element
    assert back.to_bytes() == element.to_bytes()
