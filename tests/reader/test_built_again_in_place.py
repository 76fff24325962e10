"""A dataset that is built again, where it was, is not taken for the one that a program opened.

Its records have one size here: they lie at the same bytes in each build, and every checksum is right.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shardfeed
from shardfeed.errors import DatasetError
from tests.kit import datasets
from tests.kit.datasets import write_dataset
from tests.kit.servers.strict_gcs import StrictGCS

RECORDS = 48
OPTIONS: dict[str, Any] = {"image_format": "raw", "classes": ["daisy"], "splits": {"train": RECORDS}, "shards": 6}
URL = "gs://bucket/a/flowers"


def records(dataset: shardfeed.DatasetInfo) -> Iterator[Any]:
    found = shardfeed.records(dataset, "train")
    return (found[number] for number in itertools.cycle(range(RECORDS)))


def several_records(dataset: shardfeed.DatasetInfo) -> Iterator[Any]:
    found = shardfeed.records(dataset, "train")
    return (found.__getitems__([number, number + 1]) for number in itertools.cycle(range(RECORDS - 1)))


def array_batches(dataset: shardfeed.DatasetInfo) -> Iterator[Any]:
    return iter(shardfeed.array_batches(dataset, "train", 1, shuffle_buffer=1, threads=1))


def loaded(dataset: shardfeed.DatasetInfo) -> Iterator[Any]:
    rows = iter(shardfeed.load(dataset, "train", 1, shuffle_buffer=1))

    def explained() -> Iterator[Any]:
        with shardfeed.explain_errors(dataset):
            yield from rows

    return explained()


Door = Callable[[shardfeed.DatasetInfo], Iterator[Any]]
in_folder = pytest.mark.parametrize("door", [records, several_records, array_batches])
in_bucket = pytest.mark.parametrize("door", [records, several_records, array_batches, loaded])


@pytest.fixture(autouse=True)
def streams_end_before_their_bucket(strict_gcs: StrictGCS) -> Iterator[None]:
    """pytest keeps an error, whose traceback holds its stream. It goes here, where its bucket still
    answers: one of its own threads would wait for itself.
    """
    yield
    gc.collect()


def write(path: Path, **changes: Any) -> None:
    """A dataset instead of what is at ``path``, a link; at once, since readers read ahead."""
    folder, link = path.with_name(f"{path.name}-{len(changes)}"), path.with_name("link")
    folder.mkdir()
    write_dataset(folder, **OPTIONS, **changes)
    link.symlink_to(folder)
    link.replace(path)


def upload(server: StrictGCS, path: Path) -> None:
    """The dataset at ``path`` instead of what is in the bucket; at once, since readers read ahead."""
    buckets = server.objects.buckets
    buckets["new"] = {}
    datasets.upload(path, URL.replace("bucket", "new"))
    buckets["bucket"] = buckets.pop("new")


def read_on(rows: Iterator[Any]) -> None:
    for _ in range(8 * RECORDS):  # a stream may have a pass in memory
        next(rows)


def refuse(rows: Iterator[Any], url: str) -> None:
    with pytest.raises(DatasetError) as error:
        read_on(rows)
    assert str(error.value) == (
        f"the dataset at {url} is another one since it was opened: expected fingerprint 0123456789abcdef0123456789abcdef, "
        f"found {'f' * 32}. Open it again."
    )


@pytest.mark.parametrize("begun", [False, True], ids=["before the first read", "after it"])
@in_folder
def test_in_a_folder(door: Door, begun: bool, tmp_path: Path) -> None:
    path = tmp_path / "flowers"
    write(path)
    rows = door(shardfeed.info(path))
    if begun:
        next(rows)
    write(path, seed=1, fingerprint="f" * 32)
    read_on(door(shardfeed.info(path)))  # it is whole
    refuse(rows, str(path))


@pytest.mark.parametrize("begun", [False, True], ids=["before the first read", "after it"])
@in_bucket
def test_in_a_bucket(door: Door, begun: bool, strict_gcs: StrictGCS, tmp_path: Path) -> None:
    path = tmp_path / "flowers"
    write(path)
    upload(strict_gcs, path)
    rows = door(shardfeed.info(URL))
    if begun:
        next(rows)
    write(path, seed=1, fingerprint="f" * 32)
    upload(strict_gcs, path)
    read_on(door(shardfeed.info(URL)))  # it is whole
    refuse(rows, URL)


@in_bucket
def test_one_that_is_copied_over_itself_in_a_bucket_is_read_on(
    door: Door, strict_gcs: StrictGCS, tmp_path: Path
) -> None:
    path = tmp_path / "flowers"
    write(path)
    upload(strict_gcs, path)
    rows = door(shardfeed.info(URL))
    next(rows)
    upload(strict_gcs, path)
    begin = len(strict_gcs.log)
    read_on(rows)
    looked = [request.method for request in strict_gcs.log[begin:] if request.name.endswith("manifest.json")]
    assert 0 < looked.count("GET") <= 2 * OPTIONS["shards"]  # once per shard; two threads may look at a time
