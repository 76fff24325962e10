"""``SHARDFEED_CACHE_LIMIT``: which copies make room for new ones, and which never do."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import shardfeed
from shardfeed.dataset import cache_limit
from shardfeed.dataset.local_copy import mirror
from tests.kit.datasets import write_dataset

Datasets = dict[str, shardfeed.DatasetInfo]
Limit = Callable[[str], None]
SIZE = 100_000  # bytes of a dataset, about


@pytest.fixture(autouse=True)
def no_locks_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_limit, "_locks", {})


@pytest.fixture
def datasets(tmp_path: Path) -> Datasets:
    """Three datasets of three shards each."""
    made = {}
    for number, name in enumerate("abc"):
        splits = {"train": 30 + number}
        write_dataset(tmp_path / name, splits=splits, image_format="raw", size=(20, 55), fingerprint=name * 32)
        made[name] = shardfeed.info(tmp_path / name)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "copies"


@pytest.fixture
def limit(datasets: Datasets, monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Sets the limit to the bytes of the datasets that are named."""
    return lambda names: monkeypatch.setenv(cache_limit.VARIABLE, str(size_of(datasets, names)))


def size_of(datasets: Datasets, names: str) -> int:
    return sum(datasets[name].splits["train"].bytes for name in names)


def use(info: shardfeed.DatasetInfo, folder: Path, second: int | None = None) -> None:
    """Copies ``info`` as a program does that then ends, now or at ``second``: its locks are gone."""
    mirror(info, info.splits["train"].shards, str(folder))
    while cache_limit._locks:
        os.close(cache_limit._locks.popitem()[1])
    if second is not None:
        os.utime(folder / info.fingerprint, (second, second))


def kept(datasets: Datasets, folder: Path) -> dict[str, int]:
    """Number of copies of each dataset."""
    found = {name: len(list((folder / info.fingerprint).glob("*.tfrecord"))) for name, info in datasets.items()}
    return {name: count for name, count in found.items() if count}


def test_a_copy_that_another_process_deletes_meanwhile_is_room_already(
    datasets: Datasets, folder: Path, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(datasets["a"], folder)
    (first, *_) = sorted((folder / datasets["a"].fingerprint).glob("*.tfrecord"))

    class Racing:
        """Another process is faster: between the look at the names and at the sizes."""

        def match(self, name: str) -> bool:
            first.unlink(missing_ok=True)
            return name.endswith(".tfrecord")

    monkeypatch.setattr(cache_limit, "_COPY", Racing())
    limit("ab")
    use(datasets["b"], folder)

    assert kept(datasets, folder) == {"a": 2, "b": 3}


def test_the_dataset_that_was_used_the_longest_time_ago_makes_room(
    datasets: Datasets, folder: Path, limit: Limit
) -> None:
    use(datasets["a"], folder, 2)
    use(datasets["b"], folder, 1)
    limit("ac")

    use(datasets["c"], folder)

    assert kept(datasets, folder) == {"a": 3, "c": 3}


def test_no_more_is_deleted_than_is_needed(datasets: Datasets, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(datasets["a"], folder, 1)
    use(datasets["b"], folder)
    monkeypatch.setenv(cache_limit.VARIABLE, str(size_of(datasets, "abc") - 1))

    use(datasets["c"], folder)

    assert kept(datasets, folder) == {"a": 2, "b": 3, "c": 3}


def test_a_dataset_is_used_when_its_copies_are_read_again(datasets: Datasets, folder: Path, limit: Limit) -> None:
    use(datasets["a"], folder, 1)
    use(datasets["b"], folder, 1)
    use(datasets["a"], folder)
    limit("ac")

    use(datasets["c"], folder)

    assert kept(datasets, folder) == {"a": 3, "c": 3}


READ = """
import sys, shardfeed
from shardfeed.dataset.local_copy import mirror
info = shardfeed.info(sys.argv[1])
mirror(info, info.splits["train"].shards, sys.argv[2])
print(flush=True)
sys.stdin.readline()
"""


def test_copies_that_a_living_process_reads_stay(
    datasets: Datasets, tmp_path: Path, folder: Path, limit: Limit
) -> None:
    command = [sys.executable, "-c", READ, str(tmp_path / "a"), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        limit("c")

        with pytest.raises(shardfeed.StorageError) as raised:
            use(datasets["c"], folder)

        assert kept(datasets, folder) == {"a": 3}
        process.communicate(b"\n")
    needed, over = size_of(datasets, "c"), size_of(datasets, "a")
    assert str(raised.value) == (
        f"cache={str(folder)!r}: {needed:,} bytes are to be copied, {over:,} more than SHARDFEED_CACHE_LIMIT={needed} and the "
        "copies in use leave room for. Set a higher limit, end the programs that read the others, or choose another folder."
    )
    use(datasets["c"], folder)  # the process has ended
    assert kept(datasets, folder) == {"c": 3}


def test_files_that_are_no_copies_stay(datasets: Datasets, folder: Path, limit: Limit) -> None:
    use(datasets["a"], folder)
    mine = [
        folder / "photos" / "train.tfrecord",
        folder / "photos" / "01234567-train.tfrecord",
        folder / datasets["a"].fingerprint / "notes.txt",
    ]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(SIZE))
    limit("c")

    use(datasets["c"], folder)

    assert (kept(datasets, folder), [path.exists() for path in mine]) == ({"c": 3}, [True] * 3)


def test_without_locks_and_without_a_limit_nothing_is_deleted(
    datasets: Datasets, folder: Path, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(datasets["a"], folder)
    use(datasets["b"], folder)
    assert kept(datasets, folder) == {"a": 3, "b": 3}
    limit("c")

    def flock(file: object, operation: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(shardfeed.StorageError):
        use(datasets["c"], folder)
    assert kept(datasets, folder) == {"a": 3, "b": 3}


def test_a_limit_that_is_no_size_is_refused(datasets: Datasets, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDFEED_CACHE_LIMIT", "much")
    with pytest.raises(shardfeed.UsageError, match=r"^SHARDFEED_CACHE_LIMIT='much': expected bytes as a positive int"):
        use(datasets["a"], folder)
