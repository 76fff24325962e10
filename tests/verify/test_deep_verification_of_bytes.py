"""Bytes that changed after publication: found with the file and the record's offset."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardfeed import storage
from shardfeed.storage.base import Stat
from shardfeed.storage.local import LocalStore
from shardfeed.verification.dataset import verify
from shardfeed.verification.report import Finding
from tests.kit.datasets import write_dataset
from tests.verify.damage import (
    INDEX,
    OTHER,
    REJECTS,
    SHARD,
    append,
    columns,
    cut,
    dataset,
    flip,
    records,
    rewrite,
)  # fmt: skip


def brief(findings: tuple[Finding, ...]) -> list[tuple[str, int | None, str]]:
    return [(finding.file, finding.offset, finding.what) for finding in findings]


@pytest.mark.parametrize(
    ("record", "within", "what"),
    [
        (0, lambda size: 0, "crc of the length"),
        (4, lambda size: 11, "crc of the length"),
        (0, lambda size: 12, "crc of the data"),
        (4, lambda size: size - 1, "crc of the data"),
    ],
    ids=["first of the length", "last of the length's crc", "first of the data", "last of the data's crc"],
)
def test_a_changed_byte_is_found_in_its_record(out: Path, record: int, within: Callable[[int], int], what: str) -> None:
    offset, size = records(out / SHARD)[record]
    flip(out / SHARD, offset + within(size))
    report = verify(out, deep=True)
    assert brief(report.findings) == [(SHARD, offset, f"record {record}: {what}")]
    assert report.findings[0].remedy == f"Restore {SHARD} from a copy, or delete {out} and build again."
    hidden = what == "crc of the length" and record == 0
    assert report.records == (13 if hidden else 17)
    assert report.findings[0].found.endswith("; the records behind it cannot be read") == hidden


def test_damaged_records_are_named_up_to_a_damaged_length_which_hides_those_behind_it(out: Path) -> None:
    places = records(out / SHARD)
    for record, within in ((0, 30), (2, 0), (3, 30)):
        flip(out / SHARD, places[record][0] + within)
    report = verify(out, deep=True)
    assert brief(report.findings) == [
        (SHARD, places[0][0], "record 0: crc of the data"),
        (SHARD, places[2][0], "record 2: crc of the length"),
    ]
    assert report.findings[1].found.endswith("; the records behind it cannot be read")
    assert report.records == 14  # of 18


def test_of_many_damaged_records_ten_are_named_and_the_others_counted(tmp_path: Path) -> None:
    dataset(tmp_path, splits={"train": 45})
    for offset, _ in records(tmp_path / SHARD):
        flip(tmp_path / SHARD, offset + 30)
    report = verify(tmp_path, deep=True)
    assert [finding.what for finding in report.findings] == [
        *(f"record {n}: crc of the data" for n in range(10)),
        "records",
    ]
    assert (report.findings[-1].found, report.records) == ("5 more findings in this file", 30)


def test_a_damaged_and_a_wrong_record_of_one_shard_are_both_named(out: Path) -> None:
    rows = columns(out, SHARD)
    rows[3]["class"] = 9
    rewrite(out, SHARD, rows)
    offsets = [offset for offset, _ in records(out / SHARD)]
    flip(out / SHARD, offsets[1] + 30)
    assert brief(verify(out, deep=True).findings) == [
        (SHARD, offsets[1], "record 1: crc of the data"),
        (SHARD, offsets[3], "record 3: class"),
    ]


@pytest.mark.parametrize(("file", "at"), [("classes.txt", 0), (REJECTS, -1)])
def test_a_changed_byte_of_a_side_file_is_found(out: Path, file: str, at: int) -> None:
    flip(out / file, at)
    assert brief(verify(out, deep=True).findings) == [(file, None, "crc32c")]


@pytest.mark.parametrize("line", [0, 4])
def test_a_changed_byte_of_an_index_is_found_in_its_line(out: Path, line: int) -> None:
    lines = (out / INDEX).read_bytes().splitlines(keepends=True)
    start = len(b"".join(lines[:line]))
    flip(out / INDEX, start + 1)
    assert brief(verify(out, deep=True).findings) == [(INDEX, start, "line")]


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changed_byte_anywhere_is_found_in_its_file(out: Path, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(sorted(file for file in os.listdir(out) if file != "manifest.json")))
    before = (out / file).read_bytes()
    flip(out / file, data.draw(st.integers(0, len(before) - 1)))
    try:
        found = {finding.file for finding in verify(out, deep=True).findings}
        # A table is told by its rows: a byte that decides none, as in the writer's name, is no damage.
        assert found == {file} or (found == set() and pq.read_table(out / file) == pq.read_table(io.BytesIO(before)))
    finally:
        (out / file).write_bytes(before)


@pytest.mark.parametrize(
    ("record", "more", "what"),
    [(0, 0, ""), (3, 0, ""), (3, 11, "record 3: header is cut"), (3, 12, "record 3: data is cut")],
    ids=["to nothing", "between two records", "in the header", "in the data"],
)
def test_a_cut_shard_is_found_where_it_ends(out: Path, record: int, more: int, what: str) -> None:
    offset, _ = records(out / SHARD)[record]
    cut(out / SHARD, offset + more)
    size = (SHARD, offset + more, "size")
    assert brief(verify(out, deep=True).findings) == ([size, (SHARD, offset, what)] if what else [size])


def test_what_follows_the_last_record_is_found_where_it_starts(out: Path) -> None:
    (_, length), size = records(out / SHARD)[0], (out / SHARD).stat().st_size
    append(out / SHARD, (out / SHARD).read_bytes()[:length])  # a valid record
    assert brief(verify(out, deep=True).findings) == [(SHARD, size, "size")]
    cut(out / SHARD, size)
    append(out / SHARD, b"garbage, more than a header")
    assert brief(verify(out, deep=True).findings) == [
        (SHARD, size, "size"),
        (SHARD, size, "record 5: crc of the length"),
    ]


def test_whole_records_in_another_place_are_found_by_the_checksum_of_their_shard(tmp_path: Path) -> None:
    """Shards and records have one size, so that sizes show nothing."""
    write_dataset(tmp_path, splits={"train": 15}, image_format="raw", classes=("a", "b", "c"))
    shard, copied = tmp_path / SHARD, tmp_path / OTHER
    data, (_, size) = shard.read_bytes(), records(shard)[0]
    copied.write_bytes(data)
    assert verify(tmp_path).ok
    assert brief(verify(tmp_path, deep=True).findings) == [(OTHER, None, "crc32c")]
    shard.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])
    assert brief(verify(tmp_path, deep=True).findings) == [(SHARD, None, "crc32c"), (OTHER, None, "crc32c")]


def test_damage_in_several_files_is_reported_in_the_order_of_the_manifest(out: Path) -> None:
    flip(out / OTHER, 0)
    flip(out / SHARD, 0)
    flip(out / "classes.txt", 0)
    (out / "test-00000-of-00003.tfrecord.idx").unlink()
    assert brief(verify(out, deep=True, threads=8).findings) == [
        ("test-00000-of-00003.tfrecord.idx", None, "file"),
        (SHARD, 0, "record 0: crc of the length"),
        (OTHER, 0, "record 0: crc of the length"),
        ("classes.txt", None, "crc32c"),
    ]


class _Vanishing(LocalStore):
    """A store in which one file is deleted right after it was listed."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url)
        self._vanishes = name

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        listed = [*super().list(prefix)]
        os.unlink(self.path(self._vanishes))
        yield from listed


@pytest.mark.parametrize("file", [SHARD, INDEX, "classes.txt"])
def test_a_file_that_vanishes_while_it_is_verified_is_a_finding(
    out: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "open_store", lambda url: _Vanishing(url, file))
    assert {(finding.file, finding.what) for finding in verify(out, deep=True).findings} == {(file, "file")}


def test_files_are_read_in_bounded_pieces_and_a_store_may_answer_with_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Watched(LocalStore):
        def read_range(self, name: str, offset: int, size: int) -> bytes:
            asked.append(size)
            return super().read_range(name, offset, min(size, 100_001))

    size = (1700, 1700)  # 8.7 MB, more than two pieces
    write_dataset(tmp_path, splits={"train": 1}, image_format="raw", size=size, classes=("a",))
    monkeypatch.setattr(storage, "open_store", Watched)
    report = verify(tmp_path, deep=True)
    assert (report.findings, report.records) == ((), 1)
    assert max(asked) <= 4 << 20
