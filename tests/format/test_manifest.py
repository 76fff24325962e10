from __future__ import annotations

import json
import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import DatasetError
from shardfeed.format import naming
from shardfeed.format.manifest import (
    MAX_BYTES,
    ImageInfo,
    Manifest,
    RecordTable,
    Shard,
    SideFile,
    Split,
    canonical_json,
    parse_manifest,
)

WHERE = "/data/flowers/manifest.json"


def manifest() -> Manifest:
    shards = (
        Shard("train-00000-of-00002.tfrecord", 3, 300, "0000000a", ((2, 200), (1, 100))),
        Shard("train-00001-of-00002.tfrecord", 1, 90, "ffffffff", ((1, 90),)),
    )
    return Manifest(
        fingerprint="5f" * 16,
        config={"image_size": [224, 224], "seed": 0},
        versions={"pillow": "12.1.1"},
        classes=("daisy", "rösé"),
        listing={"digest": "00", "by_class": {"daisy": [4, 400]}},
        listed=8,
        written=4,
        rejected={"CORRUPT": 3},
        skipped={"HIDDEN": 1},
        fixes={"alpha": 2},
        image=ImageInfo(224, None, 3, "jpeg", (1.5, 2.0, 3.25), (0.0, 1.0, 2.0)),
        splits={"train": Split(4, 390, {"daisy": 4, "rösé": 0}, shards)},
        files=(SideFile("classes.txt", 10, "12345678"), SideFile("train-00000-of-00002.tfrecord.idx", 20, "12345678")),
        tables=(
            RecordTable("train-00000-of-00002.parquet", 3, "0d" * 16),
            RecordTable("train-00001-of-00002.parquet", 1, "0e" * 16),
        ),
        formats=("jpeg", "png"),
    )


GOLDEN = (
    '{"classes":["daisy","rösé"],"columns":[],"config":{"image_size":[224,224],"seed":0},"duplicates":null,"files":['
    '{"bytes":10,"crc32c":"12345678","file":"classes.txt"},{"bytes":20,"crc32c":"12345678",'
    '"file":"train-00000-of-00002.tfrecord.idx"}],'
    '"fingerprint":"5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f","fixes":{"alpha":2},"formats":["jpeg","png"],"image":{"channels":3,'
    '"format":"jpeg","height":224,"mean":[1.5,2.0,3.25],"std":[0.0,1.0,2.0],"width":null},"label_kind":"single","listed":8,'
    '"listing":{"by_class":{"daisy":[4,400]},"digest":"00"},"rejected":{"by_reason":{"CORRUPT":3},"total":3},'
    '"schema_version":2,"skipped":{"by_reason":'
    '{"HIDDEN":1},"total":1},"splits":{"train":{"bytes":390,"class_counts":{"daisy":4,"rösé":0},"records":4,"shards":['
    '{"blocks":[[2,200],[1,100]],"bytes":300,"crc32c":"0000000a","file":"train-00000-of-00002.tfrecord","records":3},'
    '{"blocks":[[1,90]],"bytes":90,"crc32c":"ffffffff","file":"train-00001-of-00002.tfrecord","records":1}]}},'
    '"tables":[{"digest":"0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d","file":"train-00000-of-00002.parquet","rows":3},'
    '{"digest":"0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e","file":"train-00001-of-00002.parquet","rows":1}],'
    '"versions":{"pillow":"12.1.1"},"written":4}\n'
)


# Version 1 has the same fields but these.
_TABLES = GOLDEN[GOLDEN.index('"tables"') : GOLDEN.index('"versions"')]
GOLDEN_1 = GOLDEN.replace('"schema_version":2', '"schema_version":1')
for _new in ('"columns":[],', '"duplicates":null,', '"formats":["jpeg","png"],', '"label_kind":"single",', _TABLES):
    GOLDEN_1 = GOLDEN_1.replace(_new, "")


def raw() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(manifest().to_json())
    return value


def test_the_bytes_are_the_same_for_ever() -> None:
    assert manifest().to_json() == GOLDEN.encode()


def test_what_is_written_is_read() -> None:
    assert parse_manifest(manifest().to_json(), WHERE) == manifest()


def test_version_1_is_read_with_the_defaults_of_what_it_does_not_say_and_written_as_it_was() -> None:
    old = replace(manifest(), tables=(), formats=(), schema_version=1)

    assert parse_manifest(GOLDEN_1.encode(), WHERE) == old
    assert old.to_json() == GOLDEN_1.encode()


def test_records_of_several_labels_are_counted_for_each_of_them() -> None:
    counts = {name: split["class_counts"] for name, split in raw()["splits"].items()}
    found = parse_manifest(json.dumps(raw() | {"label_kind": "multi"}).encode(), WHERE)
    assert {name: split.class_counts for name, split in found.splits.items()} == counts


def test_a_dataset_without_labels_has_no_classes() -> None:
    with pytest.raises(DatasetError, match="2 classes in a dataset without labels"):
        parse_manifest(json.dumps(raw() | {"label_kind": "none"}).encode(), WHERE)


def test_the_order_in_which_it_was_put_together_does_not_matter() -> None:
    shuffled = json.dumps(dict(reversed(raw().items())), indent=3).encode()
    assert parse_manifest(shuffled, WHERE).to_json() == manifest().to_json()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_has_not_are_not_written(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"mean": value})


@pytest.mark.parametrize(
    ("version", "shown"),
    [(0, "0"), (3, "3"), (99, "99"), ("1", "1"), (1.0, "1.0"), (True, "True"), (None, "NoneType"), ([1], "list")],
    ids=repr,
)
def test_another_version_is_refused_and_both_are_named(version: Any, shown: str) -> None:
    with pytest.raises(DatasetError) as caught:
        parse_manifest(json.dumps(raw() | {"schema_version": version}).encode(), WHERE)
    assert str(caught.value) == (
        f"{WHERE} has schema_version {shown}; this shardfeed reads versions 1 and 2. "
        "Install the shardfeed that wrote it, or build the dataset again."
    )


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"[]", "list where an object is expected. "), (b"{}", "schema_version is missing. "), (b"", "not JSON"),
        (b"{", "not JSON"), (b"null", ""), (b"1", ""), (b'"text"', ""), (b"\xff\xfe", ""), (b"not json", ""), (b"\x00" * 100, ""),
        (b"[" * 100_000, ""), (b"9" * 10_000, ""), ('{"schema_version":1}'.encode("utf-16"), ""), (b'{"schema_version":NaN}', ""),
    ],
    ids=lambda value: repr(value[-20:]) if isinstance(value, bytes) else "",
)  # fmt: skip
def test_what_is_no_manifest_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(DatasetError) as caught:
        parse_manifest(data, WHERE)
    assert str(caught.value).startswith(f"{WHERE} is damaged: {what}")
    assert str(caught.value).endswith("Restore the file from a copy, or build the dataset again.")


def test_a_manifest_of_another_version_or_above_the_limit_is_refused_before_anything_else_is_looked_at() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return MAX_BYTES + 1

    with pytest.raises(DatasetError, match=f"{MAX_BYTES + 1} bytes, at most {MAX_BYTES} are allowed"):
        parse_manifest(Large(b"{"), WHERE)
    with pytest.raises(DatasetError, match="schema_version 7"):
        parse_manifest(b'{"schema_version": 7, "new": "layout"}', WHERE)


def at(*path: str | int) -> Callable[[dict[str, Any], Any], None]:
    """Sets the value at ``path``."""

    def put(value: dict[str, Any], new: Any) -> None:
        inner: Any = value
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = new

    return put


SHARD = ("splits", "train", "shards", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("splits", "train", "records"), 5, "shards of train do not add up to 5 records, 390 bytes"),
        (("splits", "train", "bytes"), 391, "shards of train do not add up to 4 records, 391 bytes"),
        (("splits", "train", "class_counts"), {"daisy": 3, "rösé": 0}, "class_counts of train do not add up to 4"),
        (("splits", "train", "class_counts"), {"daisy": 4}, "class_counts of train do not add up to 4"),
        (("splits", "train", "class_counts"), {"daisy": 3, "rösé": 0, "x": 1}, "class_counts of train do not add up"),
        (("splits", "train", "class_counts"), {"daisy": 5, "rösé": -1}, "number -1"),
        ((*SHARD, "records"), 4, "blocks of train-00000-of-00002.tfrecord do not add up to 4 records, 300 bytes"),
        ((*SHARD, "records"), 0, "number 0, allowed are 1"),
        ((*SHARD, "bytes"), 301, "blocks of train-00000-of-00002.tfrecord do not add up to 3 records, 301 bytes"),
        ((*SHARD, "blocks"), [[3, 200]], "do not add up to 3 records, 300 bytes"),
        ((*SHARD, "blocks"), [[4, 400], [-1, -100]], "number -1"),
        ((*SHARD, "blocks"), [[3, 300], [0, 0]], "number 0"),
        ((*SHARD, "blocks"), [], "do not add up"),
        ((*SHARD, "blocks"), [[3, 300, 1]], "a block is not a pair of records and bytes"),
        ((*SHARD, "crc32c"), "0A", "crc32c 0A is not 8 lower-case hex digits"),
        ((*SHARD, "crc32c"), 10, "int where a string is expected"),
        (("fingerprint",), "../escaped", "fingerprint ../escaped is not 32 lower-case hex digits"),
        (("fingerprint",), "5F" * 16, "fingerprint 5F5F"),
        (("fingerprint",), "5f" * 16 + "\n", "is not 32 lower-case hex digits"),
        ((*SHARD, "file"), "../../etc/passwd", "shard name ../../etc/passwd"),
        ((*SHARD, "file"), "test-00000-of-00002.tfrecord", "where train-00000-of-00002.tfrecord is expected"),
        ((*SHARD, "file"), "train-00001-of-00002.tfrecord", "where train-00000-of-00002.tfrecord is expected"),
        ((*SHARD, "file"), "train-00000-of-00003.tfrecord", "where train-00000-of-00002.tfrecord is expected"),
        (("files", 0, "file"), "../classes.txt", "file name ../classes.txt"),
        (("files", 0, "file"), "_parts/../../classes.txt", "file name _parts"),
        (("files", 0, "file"), "manifest.json", "file name manifest.json"),
        (("files", 0, "file"), "run.json", "file name run.json"),
        (("files", 0, "file"), "notes.txt", "file name notes.txt"),
        (("files", 0, "file"), "train-00000-of-00002.tfrecord", "a file is named twice"),
        (("files", 0, "file"), "train-00000-of-00002.tfrecord.idx", "a file is named twice"),
        (("files", 0, "bytes"), -1, "number -1"),
        (("files", 0, "bytes"), 1 << 63, "number 9223372036854775808"),
        (("listed",), 9, "listed 9 is not written + rejected + skipped = 8"),
        (("listed",), 8.0, "float where an integer is expected"),
        (("listed",), True, "bool where an integer is expected"),
        (("written",), 3, "written 3 is not the 4 records of the splits"),
        (("rejected", "total"), 4, "rejected by reason do not add up to 4"),
        (("skipped", "total"), 0, "skipped by reason do not add up to 0"),
        (("rejected", "by_reason"), [], "list where an object is expected"),
        (("classes",), ["daisy", "daisy"], "a class is named twice"),
        (("classes",), "daisy", "str where an array is expected"),
        (("classes",), ["daisy", "\ud800"], "surrogates not allowed"),
        (("image", "format"), "gif", "image format gif, allowed are jpeg, png, webp, raw"),
        (("image", "channels"), 4, "allowed are 1 or 3 channels"),
        (("image", "mean"), [1.0], "3 channels with 1 means"),
        (("image", "mean"), ["1", 2.0, 3.0], "where a finite number is expected"),
        (("image", "height"), 0, "number 0, allowed are 1"),
        (("image", "width"), "224", "str where an integer is expected"),
        (("config",), {"quality": float("nan")}, "not JSON (NaN is not JSON)"),
        (("config",), [], "list where an object is expected"),
        (("listing", "digest"), "0g", "listing digest 0g is not lower-case hex digits"),
        (("listing", "by_class"), None, "NoneType where an object is expected"),
        (("listing", "by_class"), {"daisy": [4]}, "a class of the listing is not a pair of images and bytes"),
        (("listing", "by_class"), {"daisy": [4, "400"]}, "str where an integer is expected"),
        (("listing", "by_split"), {"train": None}, "NoneType where an object is expected"),
        (("listing", "by_split"), {"train": {"daisy": None}}, "NoneType where an array is expected"),
        (("versions", "pillow"), 12, "int where a string is expected"),
        (("tables", 0, "file"), "../train-00000-of-00002.parquet", "table name ../train"),
        (("tables", 0, "file"), "train-00000-of-00002.tfrecord", "table name train-00000-of-00002.tfrecord"),
        (("tables", 0, "file"), "train-00001-of-00002.parquet", "a file is named twice"),
        (("tables", 0, "rows"), 0, "number 0, allowed are 1"),
        (("tables", 0, "digest"), "0d", "digest 0d is not 32 lower-case hex digits"),
        (("tables",), None, "NoneType where an array is expected"),
        (("columns",), ["weight"], "str where an object is expected"),
        (("duplicates",), [], "list where an object is expected"),
        (("formats",), [7], "int where a string is expected"),
        (("label_kind",), "several", "label_kind several, allowed are single, multi, none"),
        (("fingerprint",), None, "NoneType where a string is expected"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_is_refused_with_what_is_wrong(
    path: tuple[str | int, ...], value: Any, message: str
) -> None:
    damaged = raw()
    at(*path)(damaged, value)
    with pytest.raises(DatasetError) as caught:
        parse_manifest(json.dumps(damaged).encode(), WHERE)
    assert str(caught.value).startswith(f"{WHERE} is damaged: ")
    assert message in str(caught.value)
    assert str(caught.value).endswith("Restore the file from a copy, or build the dataset again.")


@pytest.mark.parametrize("name", ["../x", "a/b", "", "_x", "1x", "a-b", "a\n"], ids=repr)
def test_a_split_whose_name_is_none_is_refused(name: str) -> None:
    damaged = raw()
    damaged["splits"][name] = damaged["splits"].pop("train")
    with pytest.raises(DatasetError, match="split name"):
        parse_manifest(json.dumps(damaged).encode(), WHERE)


@pytest.mark.parametrize("field", sorted(set(raw()) - {"schema_version"}))
def test_a_missing_field_is_named(field: str) -> None:
    damaged = raw()
    del damaged[field]
    with pytest.raises(DatasetError, match=f"is damaged: {field} is missing"):
        parse_manifest(json.dumps(damaged).encode(), WHERE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths to everything in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def parses_or_refuses(data: bytes) -> None:
    """What can be read can be written and read again; all else is a DatasetError."""
    try:
        read = parse_manifest(data, WHERE)
    except DatasetError:
        return
    assert parse_manifest(read.to_json(), WHERE) == read
    for split in read.splits.values():
        assert all(naming.is_shard(shard.file) and "/" not in shard.file for shard in split.shards)
    assert all("/" not in file.file for file in read.files)


@given(place=st.sampled_from(places(raw())[1:]), value=JSON)
def test_any_value_anywhere_is_read_or_refused(place: tuple[str | int, ...], value: Any) -> None:
    damaged = raw()
    at(*place)(damaged, value)
    parses_or_refuses(json.dumps(damaged).encode())


@given(place=st.integers(0, len(manifest().to_json()) - 1), byte=st.integers(0, 255))
def test_any_changed_byte_is_read_or_refused(place: int, byte: int) -> None:
    data = bytearray(manifest().to_json())
    data[place] = byte
    parses_or_refuses(bytes(data))


@given(
    data=st.binary(max_size=300)
    | st.text(string.printable, max_size=300).map(str.encode)
    | JSON.map(lambda v: json.dumps(v).encode())
)
def test_anything_at_all_is_read_or_refused(data: bytes) -> None:
    parses_or_refuses(data)


def test_a_cut_manifest_is_refused() -> None:
    whole = manifest().to_json()
    for size in range(0, len(GOLDEN.encode()) - 1, 7):
        with pytest.raises(DatasetError):
            parse_manifest(whole[:size], WHERE)
