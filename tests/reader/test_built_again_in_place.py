"""A dataset that is built again, where it was, is not taken for the one that a program opened.

Its records have one size here: they lie at the same bytes in each build, and every checksum is right.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
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
DOORS: list[Door] = [records, several_records, array_batches, loaded]


@pytest.fixture
def server(strict_gcs: StrictGCS) -> Iterator[StrictGCS]:
    """Streams end here, where their bucket still answers: one of its own threads would wait for itself."""
    yield strict_gcs
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


def refusal(rows: Iterator[Any]) -> str:
    with pytest.raises(DatasetError) as error:
        read_on(rows)
    return str(error.value)


def assert_noticed(url: str, doors: Sequence[Door], replace: Callable[[], None]) -> None:
    """Each door refuses after ``replace``, whether it has read before or not; a new one reads all."""
    opened = {f"{door.__name__} before the first read": door(shardfeed.info(url)) for door in doors}
    begun = {f"{door.__name__} after it": door(shardfeed.info(url)) for door in doors}
    for rows in begun.values():
        next(rows)
    replace()
    for door in doors:
        read_on(door(shardfeed.info(url)))
    streams = opened | begun
    assert {name: refusal(rows) for name, rows in streams.items()} == dict.fromkeys(
        streams,
        f"the dataset at {url} is another one since it was opened: expected fingerprint 0123456789abcdef0123456789abcdef, "
        f"found {'f' * 32}. Open it again.",
    )


def test_in_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "flowers"
    write(path)

    # TensorFlow reads files itself, and does not ask for their version
    assert_noticed(str(path), DOORS[:3], lambda: write(path, seed=1, fingerprint="f" * 32))


@pytest.mark.parametrize("size", [(8, 12), (9, 12)], ids=["shards of one size", "other sizes"])
@pytest.mark.parametrize("door", DOORS)
def test_before_a_reader_is_made(door: Door, size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "flowers"
    write(path)
    found = shardfeed.info(path)
    write(path, seed=1, size=size, fingerprint="f" * 32)

    with pytest.raises(DatasetError, match="is another one since it was opened"):
        door(found)


def test_in_a_bucket(server: StrictGCS, tmp_path: Path) -> None:
    path = tmp_path / "flowers"
    write(path)
    upload(server, path)

    def replace() -> None:
        write(path, seed=1, fingerprint="f" * 32)
        upload(server, path)

    assert_noticed(URL, DOORS, replace)


@pytest.mark.parametrize("door", DOORS)
def test_one_that_is_copied_over_itself_in_a_bucket_is_read_on(door: Door, server: StrictGCS, tmp_path: Path) -> None:
    path = tmp_path / "flowers"
    write(path)
    upload(server, path)
    rows = door(shardfeed.info(URL))
    next(rows)
    upload(server, path)
    begin = len(server.log)
    read_on(rows)
    looked = [request.method for request in server.log[begin:] if request.name.endswith("manifest.json")]
    assert 0 < looked.count("GET") <= 2 * OPTIONS["shards"]  # once per shard; two threads may look at a time
