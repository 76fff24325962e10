"""The same dataset is read from gs://, s3://, az:// and a web server, by the same calls."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed import storage
from shardfeed.dataset.local_copy import mirror
from shardfeed.inspection import table_rows
from shardfeed.inspection.find import RecordRow, find, stored_records
from shardfeed.inspection.first_records import StoredRecord
from shardfeed.transforms.sources import open_source
from tests.clouds.conftest import Place
from tests.kit.datasets import Written
from tests.kit.servers.file_server import running_file_server
from tests.reader.streams import THREE_BLOCKS

OPTIONS: dict[str, Any] = {"shuffle_buffer": THREE_BLOCKS, "epochs": 2, "seed": 3}


def batches(where: str | Path) -> list[tuple[Any, ...]]:
    return list(shardfeed.array_batches(where, "train", 9, **OPTIONS))


def assert_equal(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    assert len(ours) == len(theirs) == 8
    for one, other in zip(ours, theirs, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_manifest_is_the_folder_s(place: Place, written: Written) -> None:
    info = shardfeed.info(place.url + "/")
    assert (info.manifest, info.url) == (shardfeed.info(written.path).manifest, place.url)


def test_batches_are_the_folder_s(place: Place, written: Written) -> None:
    assert_equal(batches(place.url), batches(written.path))


def test_records_are_the_folder_s(place: Place, written: Written) -> None:
    ours, theirs = (shardfeed.records(where, "train") for where in (place.url, written.path))

    for one, other in zip(
        [*ours, ours[5], *ours.__getitems__([30, 2])], [*theirs, theirs[5], theirs[30], theirs[2]], strict=True
    ):
        assert (
            one["key"] == other["key"]
            and one["label"] == other["label"]
            and np.array_equal(one["image"], other["image"])
        )
    assert ours.labels.tolist() == theirs.labels.tolist() and len(ours) == 37


def test_found_records_are_the_folder_s_with_their_images(
    place: Place, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "_AHEAD", 2)  # of more tables

    def found(where: str | Path) -> tuple[list[RecordRow], list[StoredRecord]]:
        info = shardfeed.info(where)
        hits = find(info, "label = 'rose' and number > 5", list(info.splits.values()))
        rows = [row for each in hits for row in each.rows(100)]
        return rows, stored_records(info, rows)

    ours = found(place.url)
    assert len(ours[0]) > 5 and ours == found(written.path)


def test_every_byte_is_verified(place: Place, written: Written) -> None:
    ours, theirs = (shardfeed.verify(where, deep=True) for where in (place.url, written.path))
    assert (ours.ok, ours.files, ours.bytes, ours.records) == (True, theirs.files, theirs.bytes, theirs.records)
    unlisted = ["A web server has no listing: files that the manifest does not name were not looked for."]
    assert list(ours.notes) == (unlisted if place.scheme == "http" else []) + list(theirs.notes)


def test_shards_are_copied_whole(place: Place, written: Written, tmp_path: Path) -> None:
    info = shardfeed.info(place.url)
    shards = info.splits["train"].shards
    copies = mirror(info, shards, str(tmp_path / "copies"))
    assert [Path(copy).read_bytes() for copy in copies] == [(written.path / s.file).read_bytes() for s in shards]


def test_ranges_sizes_and_names(place: Place, written: Written) -> None:
    store, name = storage.open_store(place.url), "train-00001-of-00003.tfrecord"
    data = (written.path / name).read_bytes()
    end = len(data)
    ranges = [(0, 4), (3, 0), (end - 2, 100), (end, 5), (end + 9, 5)]
    assert [store.read_range(name, *span) for span in ranges] == [data[start : start + n] for start, n in ranges]
    stat = store.stat(name)
    assert stat is not None and stat.size == end
    assert store.stat("gone") is None
    for ask in (lambda: store.read("gone"), lambda: store.read_range("gone", 0, 1)):
        with pytest.raises(storage.NotFoundError, match=r"gone is not there\.$"):
            ask()
    if place.scheme != "http":
        sizes = {file.name: file.stat().st_size for file in written.path.iterdir()}
        listed = dict(store.list())
        assert {name: stat.size for name, stat in listed.items()} == sizes
        assert listed[name] == stat
        assert [name for name, _ in store.list(name)] == [name, name + ".idx"]
        assert list(store.list("_parts/")) == []


def test_a_folder_without_a_dataset_says_so(place: Place) -> None:
    with pytest.raises(shardfeed.DatasetError, match=r"^no dataset at .*/none: manifest\.json is not there\."):
        shardfeed.info(place.url + "/none")


def in_a_fork(action: Callable[[], object]) -> int:
    """Exit status of a forked process that runs ``action``."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.alarm(30)  # a child that waits for its parent's threads never ends
    try:
        action()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def test_a_process_forked_after_reading_can_read_and_its_own_forks_too(place: Place, written: Written) -> None:
    manifest = (written.path / "manifest.json").read_bytes()
    source = None if place.scheme == "http" else open_source(place.url)  # a web server is no input
    entries = () if source is None else source.list(b"")
    listed = next((entry for entry in entries if entry.key == b"manifest.json"), None)

    def read() -> None:
        store = storage.open_store(place.url)
        assert store.read("manifest.json") == manifest
        assert store.stat("gone") is None  # an error, of the library that was loaded again
        if source is not None and listed is not None:
            assert source.read(listed.key, listed.stat) == manifest

    def read_and_fork() -> None:
        read()
        assert in_a_fork(read) == 0

    read()
    assert in_a_fork(read_and_fork) == 0


@pytest.mark.parametrize(
    ("server", "url", "said"),
    [
        (
            "aws",
            "s3://nobody/a",
            "bucket nobody does not exist (s3://nobody/a/_parts/). Check the spelling, AWS_REGION",
        ),
        ("azure", "az://nobody/a", "container nobody does not exist (az://nobody/a/_parts/). Check the spelling"),
    ],
    ids=["s3", "az"],
)
def test_a_bucket_that_does_not_exist_is_named(
    request: pytest.FixtureRequest, server: str, url: str, said: str
) -> None:
    request.getfixturevalue(server)
    with pytest.raises(shardfeed.UsageError) as raised:
        shardfeed.info(url)
    assert str(raised.value).startswith(said)


def test_a_server_that_sends_whole_files_only_is_named(written: Written) -> None:
    with running_file_server(written.path, ranges=False) as url:
        shardfeed.info(url)
        with pytest.raises(
            shardfeed.UsageError, match=r"train-00000-of-00003\.tfrecord is sent as a whole whatever range"
        ):
            storage.open_store(url).read_range("train-00000-of-00003.tfrecord", 5, 10)
