"""``records`` from gs://, on a real server and on one that notes requests and misbehaves."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import DatasetError
from shardfeed.random_access import index
from shardfeed.transforms import stores
from tests.docs.pages import run_python
from tests.kit.datasets import upload, write_dataset
from tests.kit.indexes import without_indexes
from tests.kit.servers.strict_gcs import StrictGCS
from tests.reader.damage import SHARD, flip, offset_of, place

URL = "gs://bucket/a/flowers"
COPY = "Copy the file from where the dataset is whole, or build the dataset again into an empty folder."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_dataset(tmp_path)
    return tmp_path


@pytest.mark.parametrize("read", [lambda ds: ds.labels, lambda ds: ds[0], lambda ds: ds.__getitems__([3, 1])])
def test_a_dataset_that_was_built_again_is_not_called_damaged(
    strict_gcs: StrictGCS, path: Path, read: Callable[[shardfeed.Records], object]
) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    shutil.rmtree(path)
    path.mkdir()
    write_dataset(path, splits={"train": 33}, fingerprint="f" * 32)
    strict_gcs.objects.buckets["bucket"].clear()
    upload(path, URL)

    with pytest.raises(DatasetError, match=f"is another one since .* found {'f' * 32}"):
        read(ds)


def texts(items: Any) -> list[tuple[Any, ...]]:
    return [(item["key"], item["label"], item["image"].tobytes()) for item in items]


def gets(server: StrictGCS, since: int) -> list[str]:
    """The objects that were read since, each with its range."""
    headers = [{key.lower(): value for key, value in request.headers.items()} for request in server.log[since:]]
    names = [request.name.rpartition("/")[2] for request in server.log[since:]]
    return [f"{name} {found.get('range', 'whole')}" for name, found in zip(names, headers, strict=True)]


def test_a_bucket_holds_what_the_folder_holds_that_was_copied(gcs_bucket: str, path: Path) -> None:
    local = shardfeed.records(path, "train")
    remote = shardfeed.records(upload(path, f"{gcs_bucket}/flowers"), "train")

    assert len(remote) == 37 and texts(remote) == texts(local)
    assert texts([remote[5], remote[-1]]) == texts([local[5], local[-1]])
    asked = [36, 0, 17, 16, 0]
    assert texts(remote.__getitems__(asked)) == texts(local.__getitems__(asked))
    assert remote.labels.tolist() == local.labels.tolist()
    assert remote.labels[::-2].tolist() == local.labels[::-2].tolist()
    assert list(remote.keys) == list(local.keys)
    again: shardfeed.Records = pickle.loads(pickle.dumps(remote[3:9]))
    assert texts(again) == texts(local[3:9])


def test_a_bucket_without_index_files_is_read_by_its_text_indexes(gcs_bucket: str, tmp_path: Path) -> None:
    write_dataset(tmp_path)
    without_indexes(tmp_path)
    url = upload(tmp_path, f"{gcs_bucket}/flowers")
    with pytest.warns(UserWarning, match="has no index to map"):
        remote, local = (shardfeed.records(where, "train") for where in (url, tmp_path))

    assert texts(remote) == texts(local) and remote.labels.tolist() == local.labels.tolist()


def test_a_page_of_the_index_is_read_once_and_a_record_is_one_request(strict_gcs: StrictGCS, path: Path) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    offsets, before = [offset_of(path, number) for number in range(3)], len(strict_gcs.log)

    ds[12], ds[13], ds[12]

    first, second = f"bytes={offsets[0]}-{offsets[1] - 1}", f"bytes={offsets[1]}-{offsets[2] - 1}"
    assert gets(strict_gcs, before) == [
        "train.index bytes=64-359", f"{SHARD} {first}", f"{SHARD} {second}", f"{SHARD} {first}",
    ]  # fmt: skip


def test_neighbours_are_one_request(strict_gcs: StrictGCS, path: Path) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    assert ds[0]
    before = len(strict_gcs.log)

    ds.__getitems__(range(37))

    assert sorted(gets(strict_gcs, before)) == [
        f"{shard.file} bytes=0-{shard.bytes - 1}" for shard in shardfeed.info(path).splits["train"].shards
    ]


def test_labels_are_one_request_in_each_process(strict_gcs: StrictGCS, path: Path) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    before = len(strict_gcs.log)

    assert ds.labels.tolist() == ds[:].labels.tolist() == shardfeed.records(path, "train").labels.tolist()
    assert [each.partition(" ")[0] for each in gets(strict_gcs, before)] == ["train.classes"]


def test_pages_that_were_used_last_are_kept(strict_gcs: StrictGCS, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_CACHE_BYTES", 64)
    monkeypatch.setattr(index, "_SMALL_PAGE_BYTES", 32)  # 4 records; two pages are kept
    ds, local = shardfeed.records(upload(path, URL), "train"), shardfeed.records(path, "train")
    before = len(strict_gcs.log)

    for number in (0, 1, 5, 2, 9, 1, 6):  # the page of 0 was used last when that of 9 came
        ds[number]

    pages = [each for each in gets(strict_gcs, before) if each.startswith("train.index")]
    assert pages == [f"train.index bytes={start}-{start + 31}" for start in (64, 96, 128, 96)]
    assert texts(ds) == texts(local)


def test_a_torn_index_is_named_at_its_page(strict_gcs: StrictGCS, path: Path) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    found = strict_gcs.objects.buckets["bucket"]["a/flowers/train.index"]
    strict_gcs.objects.put("bucket", "a/flowers/train.index", found.data[:-8])

    with pytest.raises(DatasetError) as refused:
        ds[0]
    assert str(refused.value) == (
        f"{URL}/train.index is damaged: expected 296 bytes from byte 64 on, found 288. {COPY}"
    )


def test_an_index_or_a_dataset_that_goes_away_is_named(strict_gcs: StrictGCS, path: Path) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    stores.open_output(URL).delete("train.index")

    for read in (lambda: ds[0], lambda: ds.__getitems__([3, 1])):
        with pytest.raises(DatasetError) as refused:
            read()
        assert str(refused.value) == (
            f"{URL}/train.index is damaged: expected 296 bytes from byte 64 on, found no such file. {COPY}"
        )
    strict_gcs.objects.buckets["bucket"].clear()
    with pytest.raises(DatasetError, match=f"^no dataset at {URL}: "):
        ds[0]


def test_damage_is_named(strict_gcs: StrictGCS, path: Path) -> None:
    expected = place(path)
    flip(path, 60 + offset_of(path, 6))
    flip(path, 70, "train.classes")
    ds = shardfeed.records(upload(path, URL), "train")

    for read in (lambda: ds[18], lambda: ds.__getitems__([0, 18, 30])):
        with pytest.raises(DatasetError) as refused:
            read()
        assert str(refused.value).startswith(f"{URL}/{SHARD} is damaged: {expected}: crc of the data: expected ")
    with pytest.raises(DatasetError, match=rf"^{URL}/train\.classes is damaged: expected crc32c [0-9a-f]{{8}}, found "):
        _ = ds.labels


def test_a_fault_of_the_store_is_tried_again(strict_gcs: StrictGCS, path: Path) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    faults = [strict_gcs.inject("drop", "get", f"a/flowers/{name}", times=3) for name in (SHARD, "train.index")]

    assert texts(ds) == texts(shardfeed.records(path, "train"))
    assert [fault.times for fault in faults] == [0, 0]


def test_a_shard_that_goes_away_is_named(strict_gcs: StrictGCS, path: Path) -> None:
    ds = shardfeed.records(upload(path, URL), "train")
    stores.open_output(URL).delete(SHARD)

    for read in (lambda: ds[18], lambda: ds.__getitems__([0, 18, 30])):
        with pytest.raises(DatasetError, match=rf"^{URL}/{SHARD} is damaged: expected .* bytes, found no such file\."):
            read()


FORK = """
import os
import shardfeed

ds = shardfeed.records("gs://bucket/a/flowers", "train")
keys = list(ds.keys)
child = os.fork()
assert [item["key"] for item in ds.__getitems__(range(37))] == keys == list(ds.keys)
assert ds.labels.sum() == {labels}
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("read")
"""


def test_a_forked_child_reads_what_its_parent_reads(strict_gcs: StrictGCS, path: Path) -> None:
    upload(path, URL)
    labels = np.asarray(shardfeed.records(path, "train").labels).sum()

    done = run_python(FORK.format(labels=labels), path, STORAGE_EMULATOR_HOST=strict_gcs.url)

    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr
