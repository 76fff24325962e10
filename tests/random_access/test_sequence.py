"""``records`` is a sequence: what it holds, how it is indexed, what its views are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.dataset.same_dataset import ShardVersions
from shardfeed.random_access.shard_files import RemoteShards
from shardfeed.storage import open_store
from tests.docs.pages import run_python
from tests.kit.datasets import Written, write_dataset
from tests.reader.damage import offset_of

SPAN = list(range(37))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_dataset(tmp_path_factory.mktemp("dataset"), image_format="raw")


@pytest.fixture
def ds(written: Written) -> shardfeed.Records:
    return shardfeed.records(written.path, "train")


def numbers_of(written: Written, items: Any) -> list[int]:
    """Number of each item in the split, by its key; image and label are compared."""
    by_key = {record.key.decode(): number for number, record in enumerate(written.records["train"])}
    found = []
    for item in items:
        number = by_key[item["key"]]
        record = written.records["train"][number]
        assert list(item) == ["image", "label", "key"]
        assert item["image"].dtype == np.uint8 and np.array_equal(item["image"], record.pixels)
        assert type(item["label"]) is int and item["label"] == record.label
        found.append(number)
    return found


def test_every_record_is_at_its_number(written: Written, ds: shardfeed.Records) -> None:
    assert len(ds) == 37
    assert numbers_of(written, [ds[number] for number in SPAN]) == SPAN
    assert numbers_of(written, ds) == SPAN
    assert ds.classes == ("daisy", "rose", "tulip")


@pytest.mark.parametrize("kind", [int, np.int64, np.int8], ids=lambda kind: kind.__name__)
def test_numbers_of_numpy_are_numbers_and_negative_ones_count_from_the_end(
    written: Written, ds: shardfeed.Records, kind: Any
) -> None:
    found = [ds[kind(11)], ds[kind(-37)], *ds.__getitems__([kind(3), kind(-1)])]
    assert numbers_of(written, found) == [11, 0, 3, 36]


@pytest.mark.parametrize("number", [37, -38, 1 << 70, np.int64(37)], ids=repr)
def test_a_number_outside_is_an_index_error_that_says_what_is_allowed(ds: shardfeed.Records, number: Any) -> None:
    for read in (ds.__getitem__, lambda each: ds.__getitems__([each]), ds.keys.__getitem__):
        with pytest.raises(IndexError) as found:
            read(number)
        assert str(found.value) == f"record {number} of 37 of train: allowed are -37 to 36"


def test_a_part_of_a_split_is_a_view_with_a_fingerprint_of_its_own(written: Written, ds: shardfeed.Records) -> None:
    part = shardfeed.records(written.path, "train[13:-8]")

    assert numbers_of(written, part) == numbers_of(written, ds[13:29]) == list(range(13, 29))
    assert part.labels.tolist() == ds.labels.tolist()[13:29]
    assert part.fingerprint == part[2:5].fingerprint == f"{ds.fingerprint}[13:29]"


def test_an_empty_view_has_no_records(ds: shardfeed.Records) -> None:
    empty = ds[5:5]

    assert (len(empty), list(empty), empty.labels.tolist(), list(empty.keys)) == (0, [], [], [])
    with pytest.raises(IndexError, match=r"^record 0 of 0 of train: allowed are none, it is empty$"):
        empty[0]


@pytest.mark.parametrize("number", ["label", 1.0, None, [1, 2]], ids=repr)
def test_what_is_no_number_is_a_type_error(ds: shardfeed.Records, number: Any) -> None:
    for read in (ds.__getitem__, lambda each: ds.__getitems__([each]), ds.keys.__getitem__):
        with pytest.raises(TypeError) as found:
            read(number)
        assert str(found.value) == (
            f"record {number!r}: expected an integer or a slice. Several records are __getitems__([…]), the labels of all are "
            ".labels, the keys .keys."
        )


SLICES = [
    slice(None), slice(5), slice(-5, None), slice(30, 100), slice(None, None, 3), slice(None, None, -1),
    slice(20, 3, -4), slice(36, None, -36), slice(9, 9),
]  # fmt: skip


@pytest.mark.parametrize("first", SLICES, ids=repr)
def test_a_slice_of_a_slice_holds_what_that_of_a_list_holds(
    written: Written, ds: shardfeed.Records, first: slice
) -> None:
    for second in SLICES:
        view, expected = ds[first][second], SPAN[first][second]
        labels = [written.records["train"][number].label for number in expected]

        assert isinstance(view, shardfeed.Records) and len(view) == len(expected)
        assert numbers_of(written, view) == expected
        assert numbers_of(written, view.__getitems__(range(len(view)))) == expected
        assert view.labels.tolist() == labels
        assert list(view.keys) == [written.records["train"][number].key.decode() for number in expected]


def test_getitems_keeps_the_order_that_was_asked_for_and_gives_duplicates(
    written: Written, ds: shardfeed.Records
) -> None:
    asked = [36, 0, 17, 16, 0, -1, 18]

    items = ds.__getitems__(asked)

    assert numbers_of(written, items) == [36, 0, 17, 16, 0, 36, 18]
    items[1]["image"][...] = 0  # whoever augments in place changes one item
    assert numbers_of(written, [items[4]]) == [0]
    assert ds.__getitems__([]) == []


def test_one_request_reads_neighbours_up_to_a_size_and_over_small_gaps(
    written: Written, ds: shardfeed.Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int, int]] = []
    reader = ds._reader
    versions = ShardVersions(reader.url, reader.fingerprint, dict(zip(reader.names, reader.versions, strict=True)))
    shards = reader.opened.shards = RemoteShards(open_store(str(written.path)), reader.names, versions)
    original = shards.read

    def noted(shard: int, start: int, size: int) -> bytes:
        read.append((shard, start, size))
        return original(shard, start, size)

    monkeypatch.setattr(shards, "read", noted)
    sizes = [shard.bytes for shard in written.manifest.splits["train"].shards]

    monkeypatch.setattr("shardfeed.random_access.shard_files._JOINED", sizes[1] - 1)
    ds.__getitems__(range(12, 24))
    last = offset_of(written.path, 11)
    assert sorted(read) == [(1, 0, last), (1, last, sizes[1] - last)]

    read.clear()
    ds.__getitems__([12, 14, 15])  # 13 lies between two of them
    first, third, fifth = (offset_of(written.path, number) for number in (0, 2, 4))
    assert read == [(1, first, fifth - first)]

    read.clear()
    monkeypatch.setattr("shardfeed.random_access.shard_files._GAP", 10)
    ds.__getitems__([12, 14, 15])
    end = offset_of(written.path, 1)
    assert sorted(read) == [(1, first, end - first), (1, third, fifth - third)]


def test_labels_are_a_view_of_the_file(written: Written, ds: shardfeed.Records) -> None:
    assert ds.labels.dtype == np.int32
    assert ds.labels.tolist() == [record.label for record in written.records["train"]]
    assert not ds.labels.flags.owndata and not ds.labels.flags.writeable
    assert np.shares_memory(ds.labels, ds[3::2].labels)


def test_repr_names_split_place_columns_and_fingerprint(written: Written, ds: shardfeed.Records) -> None:
    fingerprint = "0123456789abcdef0123456789abcdef"

    assert repr(ds) == f"Records(37 records of train in {written.path}: image, label, key; fingerprint {fingerprint})"
    part = f"Records(5 of 37 records of train in {written.path}: key; fingerprint {fingerprint})"
    assert repr(ds[:5].keys) == f"Keys({part})"
    assert ds.fingerprint == fingerprint


@pytest.mark.parametrize("columns", [["key"], ["label", "image"], ("key", "label", "image")], ids=repr)
def test_columns_are_those_that_were_asked_for_in_their_order(written: Written, columns: Any) -> None:
    whole = shardfeed.records(written.path, "train")[9]
    item = shardfeed.records(written.path, "train", columns=columns)[9]

    assert list(item) == list(columns)
    assert all(np.array_equal(item[name], whole[name]) for name in columns)


def test_without_decoding_an_image_is_its_stored_bytes(written: Written) -> None:
    ds = shardfeed.records(written.path, "train", decode=False)

    assert [item["image"] for item in ds] == [record.image for record in written.records["train"]]
    assert type(ds[0]["image"]) is bytes


def test_no_framework_is_imported(written: Written) -> None:
    done = run_python(
        "import sys, shardfeed\n"
        f"ds = shardfeed.records({str(written.path)!r}, 'train')\n"
        "ds[0], ds.labels, ds.keys[0]\n"
        "names = {'torch', 'grain', 'keras', 'tensorflow', 'jax', 'apache_beam', 'PIL', 'obstore', 'cykooz_resizer'}\n"
        "print(sorted(names & set(sys.modules)))",
        written.path,
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")
