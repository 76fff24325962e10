"""Which part a reference belongs to."""

from __future__ import annotations

import pytest

from shardfeed.format.hashing import hash64
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, pack_ref, unpack_refs
from shardfeed.transforms.inputs.splits import parse_splits
from shardfeed.transforms.planning.assign import split_by_part

REFS = [ImageRef(0, b"cat/%d.jpg" % i, Stat(i, 1)) for i in range(1_000)]


@pytest.mark.parametrize(("parts", "seed"), [(1, 0), (7, -(2**63)), (100, 2**63 - 1)])
def test_a_key_goes_where_its_hash_says(parts: int, seed: int) -> None:
    by_part = split_by_part(b"".join(map(pack_ref, REFS)), parts, seed)

    assert {part: list(unpack_refs(packed)) for part, packed in by_part.items()} == {
        part: [ref for ref in REFS if hash64("part", seed, ref.key) * parts // 2**64 == part] for part in range(parts)
    }


def test_a_split_by_ratio_still_reaches_every_part() -> None:
    rule = parse_splits("train=0.9,test=0.1")
    test = [ref for ref in REFS if rule.split_or_fault(ref.key, b"", ())[0] == "test"]

    assert len(split_by_part(b"".join(map(pack_ref, test)), 16, 0)) == 16
