"""Rows and images that belong together, whatever the order; and everything that does not match."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, RefBatch, pack_ref, unpack_refs
from shardfeed.transforms.metadata import join_here, unmatched
from shardfeed.transforms.metadata.join import match_bucket, refs_by_bucket, rows_by_bucket, without_refs
from shardfeed.transforms.metadata.table import MetadataTable, TableRow
from tests.kit.metadata import write_table

KEYS = [b"a", b"b", b"c", "größe".encode(), b"a/b"]


def refs(keys: Iterable[bytes]) -> RefBatch:
    return RefBatch("", b"".join(pack_ref(ImageRef(0, key, Stat(7, 8, 9))) for key in keys), {"hidden": 1})


def joined(batches: Sequence[RefBatch], rows: Sequence[TableRow]) -> list[RefBatch]:
    """As a driver does it, the two sides in the order that they are given."""
    left: dict[int, list[bytes]] = {}
    right: dict[int, list[bytes]] = {}
    for batch in batches:
        for bucket, data in refs_by_bucket(batch).items():
            left.setdefault(bucket, []).append(data)
    for row in rows:
        for bucket, data in rows_by_bucket([row]).items():
            right.setdefault(bucket, []).append(data)
    found = [without_refs(batch) for batch in batches]
    for bucket in left.keys() | right.keys():
        found += match_bucket(left.get(bucket, []), right.get(bucket, []))
    return found


def rows_of(batches: Iterable[RefBatch]) -> dict[bytes, bytes]:
    return {ref.key: ref.row for batch in batches if not batch.fault for ref in unpack_refs(batch.refs)}


def faults(batches: Iterable[RefBatch]) -> dict[str, set[bytes]]:
    found: dict[str, set[bytes]] = {"no_row": set(), "no_image": set(), "doubled_row": set()}
    for batch in batches:
        if batch.fault:
            found[batch.fault] |= {ref.key.partition(b" (rows")[0] for ref in unpack_refs(batch.refs)}
    return found


def skipped(batches: Iterable[RefBatch]) -> dict[str, int]:
    return {what: sum(batch.skipped.get(what, 0) for batch in batches) for what in ("hidden", "no_row")}


ROWS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([b"1", b"2"])))


@given(st.lists(st.sampled_from(KEYS), unique=True), ROWS, st.randoms())
def test_every_image_gets_its_row_and_the_rest_is_counted_in_any_order(
    keys: list[bytes], rows: list[tuple[bytes, bytes]], shuffled: random.Random
) -> None:
    numbered = [(number, key, row) for number, (key, row) in enumerate(rows, 2)]
    values = {key: {row for other, row in rows if other == key} for key, _ in rows}
    single = {key for key, several in values.items() if len(several) == 1}

    found = joined([refs(keys)], numbered)

    assert {key: {row} for key, row in rows_of(found).items() if key in single} == {
        key: values[key] for key in keys if key in single
    }
    assert faults(found) == {
        "no_row": set(keys) - values.keys(),
        "no_image": values.keys() - set(keys),
        "doubled_row": values.keys() - single,
    }
    assert skipped(found) == {"hidden": 1, "no_row": len(set(keys) - values.keys())}
    shuffled.shuffle(numbered)
    again = joined([refs(reversed(keys))], numbered)
    assert faults(again) == faults(found)
    assert {key: row for key, row in rows_of(again).items() if key in single} == {
        key: row for key, row in rows_of(found).items() if key in single
    }


def test_a_key_with_two_different_rows_is_named_with_the_first_two_that_differ() -> None:
    rows = [(9, b"a", b"2"), (3, b"a", b"1"), (4, b"a", b"1"), (12, b"a", b"3")]

    found = [batch for batch in joined([refs([b"a"])], rows) if batch.fault]

    assert [(batch.fault, [ref.key for ref in unpack_refs(batch.refs)]) for batch in found] == [
        ("doubled_row", [b"a (rows 3 and 9)"])
    ]


@pytest.mark.parametrize("run", [1, 60_000, 1 << 20], ids=["through files", "in both", "in memory"])
def test_the_join_of_one_process_is_the_same_through_files_and_leaves_none(
    run: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"{number % 7}/{number}.jpg" for number in range(3_000)]
    table = write_table(tmp_path / "t.csv", [{"file_name": key, "label": key[0]} for key in reversed(keys)])
    monkeypatch.setattr(join_here, "_RUN", run)
    out = tmp_path / "out" / "deeper"

    batches = [refs(key.encode() for key in keys[start : start + 500]) for start in range(0, 3_000, 500)]
    found = rows_of(join_here.join_here(batches, MetadataTable(str(table), "file_name", label="label"), str(out)))

    assert found == {key.encode(): found[f"{key[0]}/{key[0]}.jpg".encode()] for key in keys}
    assert len(found) == 3_000
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_the_smallest_keys_without_a_match_are_listed_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmatched, "LINES", 3)
    keys = [b"%d" % number for number in range(10, 30)] + ["\u202e1\n".encode(), b"0\xff"]
    random.Random(1).shuffle(keys)
    found = unmatched.UnmatchedKeys()

    for at in range(0, len(keys), 2):
        found.add(RefBatch("", refs(keys[at : at + 2]).refs, {}, "no_row"))
        found.add(refs(keys))  # what matches
    found.add(RefBatch("", refs([b"\xe2\x80\xae1\n"]).refs, {}, "no_image"))

    assert found.lines() == (
        b'{"key": "\\u202e1\\n", "reason": "no_image"}\n'
        b'{"key": "0\\\\xff", "reason": "no_row"}\n{"key": "10", "reason": "no_row"}\n{"key": "11", "reason": "no_row"}\n'
    )
