"""How a split's shards on gs:// are compared with the manifest: requests and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import shardfeed
from shardfeed.dataset import shard_sizes
from shardfeed.dataset.shard_sizes import check_split
from tests.kit.datasets import write_dataset
from tests.kit.servers.strict_gcs import StrictGCS


def dataset(strict_gcs: StrictGCS, path: Path, shards: int) -> shardfeed.DatasetInfo:
    """A dataset on ``strict_gcs`` with one record per shard. The requests so far are forgotten."""
    for file in write_dataset(path, splits={"train": shards, "training": 3}, shards=shards).path.iterdir():
        strict_gcs.objects.put("bucket", f"flowers/{file.name}", file.read_bytes())
    info = shardfeed.info("gs://bucket/flowers")
    strict_gcs.log.clear()
    return info


def test_up_to_a_hundred_shards_are_asked_for_one_by_one(strict_gcs: StrictGCS, tmp_path: Path) -> None:
    info = dataset(strict_gcs, tmp_path, 100)

    check_split(info, info.splits["train"])

    assert strict_gcs.counts() == {"stat": 100, "get": 1}  # the header of the index


def test_more_shards_are_listed_with_what_lies_beside_them_and_no_other_split(
    strict_gcs: StrictGCS, tmp_path: Path
) -> None:
    info = dataset(strict_gcs, tmp_path, 101)
    strict_gcs.page_size = 50

    check_split(info, info.splits["train"])

    assert strict_gcs.counts() == {"list": 7, "get": 1}  # 303 names


def test_one_hosts_shards_of_many_are_asked_for_one_by_one(
    strict_gcs: StrictGCS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_sizes, "_MOST_STATS", 5)
    info = dataset(strict_gcs, tmp_path, 101)

    check_split(info, info.splits["train"], info.splits["train"].shards[7:17])
    assert strict_gcs.counts() == {"stat": 10, "get": 1}
    check_split(info, info.splits["train"], info.splits["train"].shards[7:18])

    assert strict_gcs.counts() == {"stat": 10, "list": 1, "get": 2}


@pytest.mark.parametrize(("shards", "gone"), [(9, True), (101, False)], ids=["asked for: gone", "listed: cut"])
def test_a_shard_that_is_not_right_is_named(strict_gcs: StrictGCS, tmp_path: Path, shards: int, gone: bool) -> None:
    info = dataset(strict_gcs, tmp_path, shards)
    for shard in (seventh := info.splits["train"].shards[7]), info.splits["train"].shards[8]:
        if gone:
            del strict_gcs.objects.buckets["bucket"][f"flowers/{shard.file}"]
        else:
            strict_gcs.objects.put("bucket", f"flowers/{shard.file}", b"cut")

    with pytest.raises(shardfeed.DatasetError) as found:
        check_split(info, info.splits["train"])

    assert str(found.value) == (
        f"gs://bucket/flowers/{seventh.file} is damaged: expected {seventh.bytes} bytes, "
        f"found {'no such file' if gone else '3 bytes'}. 2 of {shards} shards are wrong. "
        "Copy the file from where the dataset is whole, or build the dataset again into an empty folder."
    )


def test_who_may_read_but_not_list_has_shards_asked_for_one_by_one(strict_gcs: StrictGCS, tmp_path: Path) -> None:
    info = dataset(strict_gcs, tmp_path, 101)
    strict_gcs.inject("status", "list", status=403, times=None)

    check_split(info, info.splits["train"])

    assert strict_gcs.counts() == {"list": 1, "stat": 101, "get": 1}
