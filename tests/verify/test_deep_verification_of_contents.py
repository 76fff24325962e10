"""Datasets whose checksums are right and whose contents are not, as from another writer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.decoding import RecordProblem
from shardfeed.errors import clip
from shardfeed.format.example import encode_example
from shardfeed.format.manifest import Shard
from shardfeed.verification.dataset import verify
from shardfeed.verification.record import RecordCheck
from shardfeed.verification.report import Finding
from tests.kit.datasets import encode
from tests.verify.damage import (
    INDEX,
    OTHER,
    REJECTS,
    SHARD,
    Columns,
    change_file,
    change_manifest,
    change_shards,
    columns,
    dataset,
    records,
    rewrite,
)  # fmt: skip


def picture(height: int = 8, width: int = 12, channels: int = 3, image_format: str = "jpeg") -> bytes:
    return encode(np.full((height, width, channels), 99, np.uint8), image_format)


def found(findings: tuple[Finding, ...]) -> list[tuple[str, int | None, str, str, str]]:
    return [(f.file, f.offset, f.what, f.expected, f.found) for f in findings]


def with_record_3(out: Path, change: Callable[[Columns], Columns | bytes]) -> int:
    """Changes record 3 of ``SHARD``, which is of class 2; its offset."""
    rows: list[Columns | bytes] = [*columns(out, SHARD)]
    rows[3] = change(columns(out, SHARD)[3])
    rewrite(out, SHARD, rows)
    return records(out / SHARD)[3][0]


@pytest.mark.parametrize(
    ("change", "what", "expected", "saw"),
    [
        (lambda row: row | {"class": 3}, "class", "0 to 2", "3"),
        (lambda row: row | {"class": -1}, "class", "0 to 2", "-1"),
        (lambda row: row | {"class": 0}, "label", "daisy, the name of class 0", "tulip"),
        (lambda row: row | {"key": b""}, "key", "a key", "none"),
        (lambda row: row | {"class": 2.0}, "column class", "1 of int", "1 of float"),
        (lambda row: row | {"class": [2, 2]}, "column class", "1 of int", "2 of int"),
        (lambda row: row | {"size": [8]}, "column size", "2 of int", "1 of int"),
        (lambda row: row | {"label": [b"tulip", b"rose"]}, "column label", "1 of bytes", "2 of bytes"),
        (lambda row: row | {"extra": 1, "class": 3}, "class", "0 to 2", "3"),
        (
            lambda row: {name: value for name, value in row.items() if name != "key"},
            "columns", "class, image, key, label, size", "class, image, label, size",
        ),
        (
            lambda row: {("name" if name == "key" else name): value for name, value in row.items()},
            "columns", "class, image, key, label, size", "class, image, label, name, size",
        ),
        (lambda row: row | {"size": [12, 8]}, "size", "8 x 12 pixels", "12 x 8 pixels"),
        (lambda row: row | {"size": [8, 13]}, "size", "8 x 12 pixels", "8 x 13 pixels"),
        (lambda row: row | {"size": [0, 0]}, "size", "8 x 12 pixels", "0 x 0 pixels"),
        (lambda row: row | {"image": picture(4, 4)}, "image", "a jpeg image of 8 x 12 x 3", "4 x 4 x 3"),
        (lambda row: b"\x00\x01", "record", "a tf.train.Example", "not a tf.train.Example: wire type 0 where 2 is expected"),
        (lambda row: b"", "record", "a tf.train.Example", "not a tf.train.Example: no features"),
    ],
    ids=[
        "class above the range", "class below the range", "label of another class", "empty key", "class as a float",
        "two classes", "one size", "two labels",
        "a class above the range beside another column", "a column missing", "a column of another name",
        "size turned round", "another width", "size zero", "image of another size",
        "not an Example", "an empty record",
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_record_is_said(
    undamaged: Path, change: Callable[[Columns], Columns | bytes], what: str, expected: str, saw: str
) -> None:
    problem = problem_of(undamaged, change)
    assert (problem.what, problem.expected, problem.found) == (what, expected, saw)


def problem_of(out: Path, change: Callable[[Columns], Columns | bytes]) -> RecordProblem:
    """What is wrong with what ``change`` makes of record 3 of ``SHARD``."""
    changed = change(columns(out, SHARD)[3])
    with pytest.raises(RecordProblem) as refused:
        RecordCheck(shardfeed.info(out).manifest)(changed if isinstance(changed, bytes) else encode_example(changed))
    return refused.value


def test_a_wrong_record_is_found_with_its_byte(out: Path) -> None:
    offset = with_record_3(out, lambda row: row | {"class": 3})
    assert found(verify(out, deep=True).findings) == [(SHARD, offset, "record 3: class", "0 to 2", "3")]


@pytest.mark.parametrize(
    "image",
    [b"", b"no image", picture()[:100], picture()[:-20], picture(image_format="png")],
    ids=["no bytes", "text", "a JPEG cut in its header", "a JPEG cut in its pixels", "a PNG in a dataset of JPEGs"],
)
def test_an_image_that_does_not_decode_is_found(undamaged: Path, image: bytes) -> None:
    problem = problem_of(undamaged, lambda row: row | {"image": image})
    assert (problem.what, problem.expected) == ("image", "a jpeg image of 8 x 12 x 3 that decodes")


def with_entry(row: Columns, entry: bytes) -> bytes:
    """The Example of ``row`` and one more entry of its map of features."""
    body = encode_example(row)
    length = len(body) - 3 + len(entry)
    return b"\x0a" + bytes([length & 0x7F | 0x80, length >> 7]) + body[3:] + entry


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row | {"boxes": [0.1, 2.0, 1e30], "text": [b"a", b""], "Extra": [-1, 2**40]},
        lambda row: with_entry(row, b"\n\x0b\n\x05zzzzz\x12\x02\n\x00"),  # of this name with an empty list of bytes
        lambda row: row | {"image": picture(channels=1) + b"x"},
    ],
    ids=["other columns", "another column without values", "a gray JPEG"],
)
def test_what_a_record_may_have_is_fine(out: Path, change: Callable[[Columns], Columns | bytes]) -> None:
    with_record_3(out, change)
    assert not verify(out, deep=True).findings


def test_an_example_in_another_encoding_than_ours_is_found(undamaged: Path) -> None:
    # The features in another order: valid protobuf, and not the bytes that the same build makes
    # elsewhere.
    problem = problem_of(
        undamaged,
        lambda row: with_entry({k: v for k, v in row.items() if k != "class"}, encode_example({"class": 2})[2:]),
    )
    assert str(problem) == "record: expected the canonical encoding of its columns, found another encoding"


@pytest.mark.parametrize(
    ("format", "channels", "size"), [("jpeg", 1, None), ("png", 3, (8, 12)), ("webp", 1, (8, 12)), ("raw", 3, None)]
)
def test_every_image_format_is_verified(
    tmp_path: Path, format: str, channels: int, size: tuple[int, int] | None
) -> None:
    dataset(tmp_path, image_format=format, channels=channels, size=size)
    report = verify(tmp_path, deep=True)
    assert (report.findings, report.records) == ((), 18)


def test_raw_pixels_of_another_length_are_found(tmp_path: Path) -> None:
    dataset(tmp_path, image_format="raw")
    offset = with_record_3(tmp_path, lambda row: row | {"image": bytes(289)})
    wanted = (SHARD, offset, "record 3: image", "8 x 12 x 3 bytes of pixels", "289 bytes")
    assert found(verify(tmp_path, deep=True).findings) == [wanted]


def test_a_key_that_occurs_twice_is_found_with_both_places(out: Path) -> None:
    other = "test-00002-of-00003.tfrecord"  # its only record is of class 2 too
    offset = with_record_3(out, lambda row: columns(out, other)[0])
    assert found(verify(out, deep=True).findings) == [
        (SHARD, offset, "key", "keys that occur once", f"test/tulip/00002.jpg here and in {other} at byte 0")
    ]
    assert verify(out, deep=True).findings[0].remedy == f"Delete {out} and build again."


def test_a_key_that_occurs_three_times_is_found_twice(out: Path) -> None:
    rows = columns(out, SHARD)
    rewrite(out, SHARD, [row | {"key": b"one/key.jpg"} if at < 3 else row for at, row in enumerate(rows)])
    offsets = [offset for offset, _ in records(out / SHARD)]
    assert [(finding.offset, finding.found) for finding in verify(out, deep=True).findings] == [
        (offsets[1], f"one/key.jpg here and in {SHARD} at byte 0"),
        (offsets[2], f"one/key.jpg here and in {SHARD} at byte {offsets[1]}"),
    ]


def test_many_doubled_keys_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    dataset(tmp_path, splits={"train": 45})
    keys = [row["key"] for row in columns(tmp_path, SHARD)]
    rewrite(tmp_path, OTHER, [row | {"key": key} for row, key in zip(columns(tmp_path, OTHER), keys, strict=True)])
    findings = verify(tmp_path, deep=True).findings
    assert [finding.what for finding in findings] == ["key"] * 11
    assert findings[-1].found == "5 more keys that occur twice"


def test_class_counts_that_are_not_those_of_the_records_are_found(out: Path) -> None:
    splits = shardfeed.info(out).manifest.splits
    train = dataclasses.replace(splits["train"], class_counts={"daisy": 6, "rose": 3, "tulip": 6})
    change_manifest(out, splits={**splits, "train": train})
    assert verify(out).ok
    assert found(verify(out, deep=True).findings) == [
        ("manifest.json", None, "class_counts of daisy in train", "7 as in the shards", "6"),
        ("manifest.json", None, "class_counts of rose in train", "2 as in the shards", "3"),
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda blocks: ((blocks[0][0] + 1, blocks[0][1]), (blocks[1][0] - 1, blocks[1][1]), blocks[2]), "block 0"),
        (lambda blocks: (blocks[0], (blocks[1][0], blocks[1][1] - 1), (blocks[2][0], blocks[2][1] + 1)), "block 1"),
    ],
    ids=["a record too many in a block", "a byte too few in a block"],
)
def test_a_block_that_does_not_end_with_a_record_is_found(out: Path, change: Callable[[Any], Any], what: str) -> None:
    change_shards(out, {SHARD: lambda shard: dataclasses.replace(shard, blocks=change(shard.blocks))})
    assert [(f.file, f.what) for f in verify(out, deep=True).findings] == [("manifest.json", f"{what} of {SHARD}")]


def test_a_record_count_that_is_not_the_files_is_found(out: Path) -> None:
    def counting(more: int) -> Callable[[Shard], Shard]:
        def change(shard: Shard) -> Shard:
            (count, size), *rest = shard.blocks
            return dataclasses.replace(shard, records=shard.records + more, blocks=((count + more, size), *rest))

        return change

    change_shards(out, {SHARD: counting(1), OTHER: counting(-1)})
    assert found(verify(out, deep=True).findings) == [
        ("manifest.json", None, f"records of {SHARD}", "5 as in the file", "6"),
        ("manifest.json", None, f"records of {OTHER}", "5 as in the file", "4"),
    ]


@pytest.mark.parametrize(
    ("change", "line", "saw"),
    [
        (lambda lines: [*lines[:2], b"1 1\n", *lines[3:]], 2, "1 1\\n"),
        (lambda lines: lines[:4], 4, "the end"),
        (lambda lines: [*lines, b"9 9\n"], 5, "9 9\\n"),
        (lambda lines: [b"".join(lines).replace(b"\n", b"\r\n")], 0, None),
    ],
    ids=["a wrong line", "a line missing", "a line too many", "other line ends"],
)
def test_an_index_that_is_not_the_shards_is_found(
    out: Path, change: Callable[[list[bytes]], list[bytes]], line: int, saw: str | None
) -> None:
    lines = (out / INDEX).read_bytes().splitlines(keepends=True)
    change_file(out, INDEX, b"".join(change(lines)))
    (finding,) = verify(out, deep=True).findings
    assert (finding.file, finding.offset, finding.what) == (INDEX, len(b"".join(lines[:line])), "line")
    assert saw is None or finding.found == saw


def test_rejects_that_are_not_the_manifests_are_found(out: Path) -> None:
    change_file(out, REJECTS, (out / REJECTS).read_bytes().splitlines(keepends=True)[0])
    assert found(verify(out, deep=True).findings) == [
        ("manifest.json", None, "rejected", "CORRUPT 1 as in the rejects files", "CORRUPT 1, EMPTY 1")
    ]


@pytest.mark.parametrize(
    "bad", [b"not JSON\n", b"[]\n", b"{}\n", b"\xff\n"], ids=["text", "array", "no reason", "not UTF-8"]
)
def test_a_line_of_rejects_that_is_none_is_found_with_its_byte(out: Path, bad: bytes) -> None:
    first = (out / REJECTS).read_bytes().splitlines(keepends=True)[0]
    change_file(out, REJECTS, first + bad)
    assert found(verify(out, deep=True).findings) == [
        (REJECTS, len(first), "line", 'one JSON object per line with "key", "reason" and "detail"', clip(bad))
    ]


def test_a_class_without_a_record_in_a_split_is_in_order(tmp_path: Path) -> None:
    dataset(tmp_path, splits={"train": 2})
    assert verify(tmp_path, deep=True).ok
