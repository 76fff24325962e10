"""Datasets whose checksums are right and whose contents are not: a wrong build, or somebody's own writer."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardfeed.errors import UsageError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c, to_hex
from shardfeed.format.example import encode_example
from shardfeed.format.manifest import ImageInfo, Manifest, SideFile
from shardfeed.verification.dataset import verify
from shardfeed.verification.report import Finding
from tests.kit.datasets import write_dataset
from tests.kit.tiny import Tiny, columns, image_bytes, tiny
from tests.verify.damage import flip, records

SHARD = "train-00001-of-00003.tfrecord"


def found(findings: tuple[Finding, ...]) -> list[tuple[str, int | None, str, str, str]]:
    return [(f.file, f.offset, f.what, f.expected, f.found) for f in findings]


def with_row(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Tiny:
    """The tiny dataset with another record 3 in ``SHARD``."""
    dataset = tiny()
    dataset.class_counts = {"train": {"daisy": 5, "rose": 5, "tulip": 5}}
    dataset.shards["train"][1][3] = change(dataset.shards["train"][1][3])
    return dataset


def raw(data: bytes) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: {"raw": data, "label": row["label"]}


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
        (lambda row: row | {"extra": 1}, None, "", ""),
        (lambda row: row | {"boxes": [0.1, 2.0, 1e30], "text": [b"a", b""], "Extra": [-1, 2**40]}, None, "", ""),
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
        (
            lambda row: row | {"image": image_bytes(1, height=4, width=4)},
            "image", "8 x 12 pixels as in its size column", "4 x 4 pixels",
        ),
        (lambda row: row | {"image": image_bytes(1, channels=1) + b"x"}, None, "", ""),
        (raw(b"\x00\x01"), "record", "a tf.train.Example", "not a tf.train.Example: wire type 0 where 2 is expected"),
        (raw(b""), "record", "a tf.train.Example", "not a tf.train.Example: no features"),
    ],
    ids=[
        "class above the range", "class below the range", "label of another class", "empty key", "class as a float",
        "two classes", "one size", "two labels", "another column is fine", "other columns are fine",
        "a class above the range beside another column", "a column missing", "a column of another name",
        "size turned round", "another width", "size zero", "image of another size", "a gray JPEG is fine",
        "not an Example", "an empty record",
    ],
)  # fmt: skip
def test_a_wrong_record_is_found_with_its_byte(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], what: str | None, expected: str, saw: str
) -> None:
    with_row(change).write(tmp_path / "out")
    offset, _ = records(tmp_path / "out" / SHARD)[3]
    wanted = [(SHARD, offset, f"record 3: {what}", expected, saw)] if what else []
    assert found(verify(tmp_path / "out", deep=True).findings) == wanted


@pytest.mark.parametrize(
    "image",
    [b"", b"no image", image_bytes(1)[:100], image_bytes(1)[:-20], image_bytes(1, format="png")],
    ids=["no bytes", "text", "a JPEG cut in its header", "a JPEG cut in its pixels", "a PNG in a dataset of JPEGs"],
)
def test_an_image_that_does_not_decode_is_found(tmp_path: Path, image: bytes) -> None:
    with_row(lambda row: row | {"image": image}).write(tmp_path / "out")
    offset, _ = records(tmp_path / "out" / SHARD)[3]
    (finding,) = verify(tmp_path / "out", deep=True).findings
    assert (finding.file, finding.offset, finding.what) == (SHARD, offset, "record 3: image")
    assert finding.expected == "a jpeg image that decodes"


def test_another_column_without_values_is_fine(tmp_path: Path) -> None:
    row = columns(8)
    body = encode_example(row)
    empty = b"\n\x0b\n\x05zzzzz\x12\x02\n\x00"  # a feature of this name with an empty list of bytes
    length = len(body) - 3 + len(empty)
    with_row(raw(b"\x0a" + bytes([length & 0x7F | 0x80, length >> 7]) + body[3:] + empty)).write(tmp_path / "out")

    assert not verify(tmp_path / "out", deep=True).findings


def test_an_example_in_another_encoding_than_ours_is_found(tmp_path: Path) -> None:
    row = columns(8)
    first, rest = {"class": row.pop("class")}, row
    body = encode_example(rest)
    # The features in another order: valid protobuf, and not the bytes that the same build makes elsewhere.
    class_entry = encode_example(first)[2:]
    length = len(body) - 3 + len(class_entry)
    data = b"\x0a" + bytes([length & 0x7F | 0x80, length >> 7]) + body[3:] + class_entry
    with_row(raw(data)).write(tmp_path / "out")
    offset, _ = records(tmp_path / "out" / SHARD)[3]
    assert found(verify(tmp_path / "out", deep=True).findings) == [
        (SHARD, offset, "record 3: record", "the canonical encoding of its columns", "another encoding")
    ]


@pytest.mark.parametrize("format", ["jpeg", "png", "webp", "raw"])
@pytest.mark.parametrize("channels", [1, 3], ids=["gray", "rgb"])
@pytest.mark.parametrize("varying", [False, True], ids=["one size", "varying sizes"])
def test_every_image_format_is_verified(tmp_path: Path, format: str, channels: int, varying: bool) -> None:
    rows = [
        columns(number, format=format, channels=channels, height=8 + varying * number, width=12) for number in range(4)
    ]
    image = ImageInfo(None if varying else 8, 12, channels, format, (1.0,) * channels, (1.0,) * channels)
    Tiny({"train": [rows]}, image=image).write(tmp_path / "out")
    report = verify(tmp_path / "out", deep=True)
    assert (report.findings, report.records) == ((), 4)


def test_raw_pixels_of_another_length_are_found(tmp_path: Path) -> None:
    rows = [columns(number, format="raw") for number in range(3)]
    rows[1]["image"] += b"x"
    Tiny({"train": [rows]}, image=ImageInfo(8, 12, 3, "raw", (1.0,) * 3, (1.0,) * 3)).write(tmp_path / "out")
    (finding,) = verify(tmp_path / "out", deep=True).findings
    assert (finding.what, finding.expected, finding.found) == (
        "record 1: image", "8 x 12 x 3 bytes of pixels", "289 bytes",
    )  # fmt: skip


def test_a_colour_image_in_a_gray_dataset_is_found(tmp_path: Path) -> None:
    rows = [columns(0, channels=1), columns(1)]
    Tiny({"train": [rows]}, image=ImageInfo(8, 12, 1, "jpeg", (1.0,), (1.0,))).write(tmp_path / "out")
    (finding,) = verify(tmp_path / "out", deep=True).findings
    assert (finding.what, finding.expected, finding.found) == ("record 1: image", "1 channels", "mode RGB")


def test_a_key_that_occurs_twice_is_found_with_both_places(tmp_path: Path) -> None:
    dataset = tiny()
    dataset.shards["train"][2][4] = dataset.shards["test"][0][1]
    dataset.write(tmp_path / "out")
    places = {
        name: records(tmp_path / "out" / name)
        for name in ("train-00002-of-00003.tfrecord", "test-00000-of-00001.tfrecord")
    }
    (finding,) = verify(tmp_path / "out", deep=True).findings
    assert (finding.file, finding.offset, finding.what) == (
        "train-00002-of-00003.tfrecord", places["train-00002-of-00003.tfrecord"][4][0], "key",
    )  # fmt: skip
    other = places["test-00000-of-00001.tfrecord"][1][0]
    assert finding.found == f"rose/016.jpg here and in test-00000-of-00001.tfrecord at byte {other}"
    assert finding.remedy == f"Delete {tmp_path / 'out'} and build again."


def test_many_doubled_keys_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    dataset = tiny()
    dataset.shards = {"train": [[columns(number) for number in range(15)]] * 2}
    dataset.write(tmp_path / "out")
    findings = verify(tmp_path / "out", deep=True).findings
    assert [finding.what for finding in findings] == ["key"] * 11
    assert findings[-1].found == "5 more keys that occur twice"


def test_many_wrong_records_of_a_shard_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    dataset = tiny()
    dataset.shards["train"][0] = [columns(number) | {"class": 9} for number in range(15)]
    dataset.write(tmp_path / "out")
    findings = verify(tmp_path / "out", deep=True).findings
    assert [finding.what for finding in findings] == [*(f"record {n}: class" for n in range(10)), "records"]
    assert findings[-1].found == "5 more findings in this file"


def rewrite(out: Path, manifest: Manifest) -> None:
    (out / naming.MANIFEST).write_bytes(manifest.to_json())


def test_class_counts_that_are_not_those_of_the_records_are_found(tmp_path: Path) -> None:
    dataset = tiny()
    dataset.class_counts = {"train": {"daisy": 4, "rose": 6, "tulip": 5}}
    dataset.write(tmp_path / "out")
    assert verify(tmp_path / "out").ok
    assert found(verify(tmp_path / "out", deep=True).findings) == [
        ("manifest.json", None, "class_counts of daisy in train", "5 as in the shards", "4"),
        ("manifest.json", None, "class_counts of rose in train", "5 as in the shards", "6"),
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda blocks: ((blocks[0][0] + 1, blocks[0][1]), (blocks[1][0] - 1, blocks[1][1]), blocks[2]), "block 0"),
        (lambda blocks: (blocks[0], (blocks[1][0], blocks[1][1] - 1), (blocks[2][0], blocks[2][1] + 1)), "block 1"),
    ],
    ids=["a record too many in a block", "a byte too few in a block"],
)
def test_a_block_that_does_not_end_with_a_record_is_found(
    tmp_path: Path, change: Callable[[Any], Any], what: str
) -> None:
    dataset = tiny()
    manifest = dataset.write(tmp_path / "out")
    train = manifest.splits["train"]
    shards = list(train.shards)
    shards[1] = dataclasses.replace(shards[1], blocks=change(shards[1].blocks))
    split = dataclasses.replace(train, shards=tuple(shards))
    rewrite(tmp_path / "out", dataclasses.replace(manifest, splits={**manifest.splits, "train": split}))
    findings = verify(tmp_path / "out", deep=True).findings
    assert [(f.file, f.what) for f in findings] == [("manifest.json", f"{what} of {SHARD}")]


def test_a_record_count_that_is_not_the_files_is_found(tmp_path: Path) -> None:
    manifest = tiny().write(tmp_path / "out")
    train = manifest.splits["train"]
    shards = list(train.shards)
    for number, more in ((0, 1), (1, -1)):
        (records_, size), *blocks = shards[number].blocks
        shards[number] = dataclasses.replace(
            shards[number], records=shards[number].records + more, blocks=((records_ + more, size), *blocks)
        )
    split = dataclasses.replace(train, shards=tuple(shards))
    rewrite(tmp_path / "out", dataclasses.replace(manifest, splits={**manifest.splits, "train": split}))
    assert found(verify(tmp_path / "out", deep=True).findings) == [
        ("manifest.json", None, "records of train-00000-of-00003.tfrecord", "5 as in the file", "6"),
        ("manifest.json", None, f"records of {SHARD}", "5 as in the file", "4"),
    ]


def with_side_file(manifest: Manifest, out: Path, name: str, data: bytes) -> None:
    """``name`` rewritten, and the manifest made to agree."""
    (out / name).write_bytes(data)
    side = SideFile(name, len(data), to_hex(crc32c(data)))
    files = tuple(side if file.file == name else file for file in manifest.files)
    rewrite(out, dataclasses.replace(manifest, files=files))


@pytest.mark.parametrize(
    ("change", "line", "saw"),
    [
        (lambda lines: [*lines[:2], b"1 1\n", *lines[3:]], 2, "1 1\\n"),
        (lambda lines: lines[:4], 4, "the end"),
        (lambda lines: [*lines, b"9 9\n"], 5, "9 9\\n"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 0, None),
        (lambda lines: [b"".join(lines).replace(b"\n", b"\r\n")], 0, None),
    ],
    ids=["a wrong line", "a line missing", "a line too many", "two lines swapped", "other line ends"],
)
def test_an_index_that_is_not_the_shards_is_found(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], line: int, saw: str | None
) -> None:
    manifest = tiny().write(tmp_path / "out")
    index = tmp_path / "out" / (SHARD + ".idx")
    lines = index.read_bytes().splitlines(keepends=True)
    with_side_file(manifest, tmp_path / "out", index.name, b"".join(change(lines)))
    (finding,) = verify(tmp_path / "out", deep=True).findings
    assert (finding.file, finding.offset, finding.what) == (index.name, len(b"".join(lines[:line])), "line")
    assert saw is None or finding.found == saw


@pytest.mark.parametrize(
    "data",
    [b"5 1\n3 1\n9 1\n", b"x y\n", b"\n", b"-1 5\n"],
    ids=["not in order", "no numbers", "an empty line", "negative"],
)
def test_behind_a_damaged_length_a_published_index_that_is_none_is_not_believed(tmp_path: Path, data: bytes) -> None:
    manifest = tiny().write(tmp_path / "out")
    with_side_file(manifest, tmp_path / "out", SHARD + ".idx", data)
    flip(tmp_path / "out" / SHARD, 0)
    assert [(f.offset, f.what) for f in verify(tmp_path / "out", deep=True).findings] == [
        (0, "record 0: crc of the length"),
        (0, "records 1 to 4"),
    ]


REJECTS = "rejects-00000-of-00001.jsonl"


def test_rejects_that_are_not_the_manifests_are_found(tmp_path: Path) -> None:
    manifest = tiny().write(tmp_path / "out")
    line = json.dumps({"key": "rose/bad.jpg", "reason": "CORRUPT", "detail": ""}).encode() + b"\n"
    with_side_file(manifest, tmp_path / "out", REJECTS, line)
    assert found(verify(tmp_path / "out", deep=True).findings) == [
        ("manifest.json", None, "rejected", "CORRUPT 1 as in the rejects files", "CORRUPT 1, EMPTY 1")
    ]


@pytest.mark.parametrize(
    "bad", [b"not JSON\n", b"[]\n", b"{}\n", b"\xff\n"], ids=["text", "array", "no reason", "not UTF-8"]
)
def test_a_line_of_rejects_that_is_none_is_found_with_its_byte(tmp_path: Path, bad: bytes) -> None:
    manifest = tiny().write(tmp_path / "out")
    first = (tmp_path / "out" / REJECTS).read_bytes().splitlines(keepends=True)[0]
    with_side_file(manifest, tmp_path / "out", REJECTS, first + bad)
    (finding,) = verify(tmp_path / "out", deep=True).findings
    assert (finding.file, finding.offset, finding.what) == (REJECTS, len(first), "line")


def test_a_class_without_a_record_in_a_split_is_in_order(tmp_path: Path) -> None:
    Tiny({"train": [[columns(0), columns(3)]]}, rejects=()).write(tmp_path / "out")
    assert verify(tmp_path / "out", deep=True).ok


def test_deep_verification_without_pillow_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(tmp_path / "out", image_format="png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UsageError, match="pip install Pillow"):
        verify(tmp_path / "out", deep=True)
    assert verify(tmp_path / "out").ok
