"""What every store does, on a disk, on a third party's GCS server and on our strict one."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from shardfeed import storage
from shardfeed.errors import ConflictError
from shardfeed.format.checksums import crc32c
from shardfeed.transforms.stores.base import WritableStore


@pytest.mark.parametrize("size", [0, 1000, 9 << 20], ids=["empty", "small", "more than Google sends in one request"])
def test_created_bytes_are_read_back(store: WritableStore, size: int) -> None:
    data = os.urandom(size)
    assert store.create("_parts/f/train/00001.json", data)
    for read in (store.read, store.read_sealed):
        assert read("_parts/f/train/00001.json") == data
    assert store.checksum("_parts/f/train/00001.json") == (size, crc32c(data))


def test_creating_a_name_twice_changes_nothing(store: WritableStore) -> None:
    assert [store.create("manifest.json", b"first"), store.create("manifest.json", b"second")] == [True, False]
    assert store.read("manifest.json") == b"first"


def test_of_many_writers_at_once_exactly_one_creates_the_name(store: WritableStore) -> None:
    store.stat("manifest.json")  # clients are made
    with ThreadPoolExecutor(8) as threads:
        created = list(threads.map(lambda n: store.create("manifest.json", b"%d" % n), range(8)))
    assert sorted(created) == [False] * 7 + [True]
    assert store.read("manifest.json") == b"%d" % created.index(True)
    assert [name for name, _ in store.list()] == ["manifest.json"]


def test_a_range_ends_where_the_file_ends(store: WritableStore) -> None:
    store.create("file", b"0123456789")
    expected = {(0, 4): b"0123", (3, 2): b"34", (8, 100): b"89", (10, 5): b"", (99, 5): b"", (2, 0): b""}
    assert {span: store.read_range("file", *span) for span in expected} == expected


def test_stat_tells_size_and_crc(store: WritableStore) -> None:
    store.create("file", b"0123456789")
    stat = store.stat("file")
    assert stat is not None
    assert (stat.size, stat.crc32c in (None, crc32c(b"0123456789"))) == (10, True)
    assert store.stat("gone") is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.read("gone"),
        lambda store: store.read_sealed("gone"),
        lambda store: store.read_range("gone", 0, 1),
        lambda store: store.checksum("gone"),
    ],
    ids=["read", "read_sealed", "read_range", "checksum"],
)
def test_a_missing_name_is_an_error_that_names_it(store: WritableStore, ask: Callable[[WritableStore], object]) -> None:
    with pytest.raises(storage.NotFoundError, match="gone"):
        ask(store)


def test_listing_gives_every_file_below_a_prefix(store: WritableStore) -> None:
    names = ["_parts/CLAIM", "_parts/f/train/00000.json", "_parts/f/train/00001.json", "classes.txt", "train-00000"]
    for name in names:
        store.create(name, name.encode())
    expected = {"": names, "_parts/": names[:3], "_parts/f/train/0000": names[1:3], "train-": names[4:], "none/": []}
    listed = {prefix: sorted((name, stat.size) for name, stat in store.list(prefix)) for prefix in expected}
    assert listed == {prefix: [(name, len(name)) for name in found] for prefix, found in expected.items()}


@pytest.mark.parametrize("count", [1, 32, 33])
def test_composing_concatenates_in_order_and_leaves_no_intermediates(store: WritableStore, count: int) -> None:
    parts = [f"_parts/f/train/{n:05d}" for n in range(count)]
    for n, part in enumerate(parts):
        store.create(part, b"%d," % n)
    sources = [parts[0], *parts[: count - 1]]  # a part may be composed twice
    assert store.compose("whole", sources, scratch="_parts/f/scratch")
    assert store.read("whole") == b"".join(b"%d," % n for n in [0, *range(count - 1)])
    assert sorted(name for name, _ in store.list()) == sorted([*parts, "whole"])


def test_deleting_removes_one_file_and_again_is_fine(store: WritableStore) -> None:
    store.create("a", b"")
    store.create("ab", b"")
    store.delete("a")
    store.delete("a")
    assert [name for name, _ in store.list()] == ["ab"]


def test_publishing_the_same_bytes_again_is_fine(store: WritableStore) -> None:
    for _ in range(2):
        store.publish("manifest.json", b"same")
    assert store.read("manifest.json") == b"same"


@pytest.mark.parametrize("theirs", [b"theirs", b"them"], ids=["another size", "the same size"])
def test_publishing_other_bytes_is_a_conflict_that_names_both(store: WritableStore, theirs: bytes) -> None:
    store.create("manifest.json", theirs)
    with pytest.raises(ConflictError) as raised:
        store.publish("manifest.json", b"ours")
    assert str(raised.value) == (
        f"{store.url}/manifest.json already holds other content: {len(theirs)} bytes, crc32c {crc32c(theirs):08x}; this build "
        f"made 4 bytes, crc32c {crc32c(b'ours'):08x}. Published files are never overwritten. Choose another --output, or "
        "remove what an unfinished build left there with --discard_incomplete."
    )
    assert store.read("manifest.json") == theirs
