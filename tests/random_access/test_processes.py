"""One ``Records`` in many processes and threads: each opens the files anew and reads the same."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import shardfeed
from shardfeed.random_access import shard_files
from tests.docs.pages import run_python
from tests.kit.datasets import write_dataset


@pytest.fixture
def ds(tmp_path: Path) -> shardfeed.Records:
    write_dataset(tmp_path)
    return shardfeed.records(tmp_path, "train", image_size=6, crop="random_resized", seed=3)


def digest(ds: shardfeed.Records, numbers: range) -> tuple[int, str]:
    """This process, and what it reads."""
    found = hashlib.sha256()
    for item in [*(ds[number] for number in numbers), *ds.__getitems__(numbers)]:
        found.update(repr((item["key"], item["label"], item["image"].tobytes())).encode())
    found.update(ds.labels.tobytes())
    return os.getpid(), found.hexdigest()


FORK = """
import os
import shardfeed
from tests.random_access.test_processes import digest

ds = shardfeed.records(".", "train", image_size=6, crop="random_resized", seed=3)
parent = digest(ds, range(37))
child = os.fork()
os.write(1, "{} {}\\n".format(*digest(ds, range(37))).encode())  # at once, whichever writes first
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert digest(ds, range(37)) == parent  # the child has closed nothing of its parent's
"""


def test_a_forked_child_reads_what_its_parent_reads(tmp_path: Path, ds: shardfeed.Records) -> None:
    _, expected = digest(ds, range(37))

    done = run_python(FORK, tmp_path)  # where no other thread runs

    assert done.returncode == 0, done.stderr
    (one, found), (other, also_found) = map(str.split, done.stdout.splitlines())
    assert one != other and found == also_found == expected


def test_a_process_that_gets_it_by_pickle_reads_the_same(ds: shardfeed.Records) -> None:
    here, expected = digest(ds, range(37))

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        there, found = pool.submit(digest, ds, range(37)).result()

    assert there != here and found == expected


def test_a_pickle_holds_nothing_that_was_read(ds: shardfeed.Records) -> None:
    before = pickle.dumps(ds)
    list(ds)
    ds.labels.sum()

    assert pickle.dumps(ds) == before
    again: shardfeed.Records = pickle.loads(pickle.dumps(ds[30:3:-2]))
    assert [item["key"] for item in again] == list(ds.keys)[30:3:-2]


def test_threads_share_it(ds: shardfeed.Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_files, "_MOST_OPEN", 1)  # so threads close each other's files
    expected = [item["key"] for item in ds]
    fresh: shardfeed.Records = pickle.loads(pickle.dumps(ds))
    start = threading.Barrier(8)

    def read(seed: int) -> list[str]:
        order = np.random.default_rng(seed).permutation(37).tolist() * 5
        start.wait()
        found = {number: fresh[number]["key"] for number in order}
        return [found[number] for number in range(37)]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(8))) == [expected] * 8


def open_shards(folder: Path) -> list[str]:
    """Names of the shards in a folder that this process has open."""
    numbers = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    paths = [Path(os.readlink(number)) for number in numbers if os.path.lexists(number)]
    return sorted(path.name for path in paths if path.suffix == ".tfrecord" and path.is_relative_to(folder))


def test_files_are_closed_with_the_last_reference(tmp_path: Path, ds: shardfeed.Records) -> None:
    list(ds)
    assert open_shards(tmp_path) == [f"train-{number:05d}-of-00003.tfrecord" for number in range(3)]

    ds._reader._opened = None

    assert open_shards(tmp_path) == []


def test_no_more_files_stay_open_than_allowed(
    tmp_path: Path, ds: shardfeed.Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_files, "_MOST_OPEN", 2)
    list(ds)

    assert open_shards(tmp_path) == ["train-00001-of-00003.tfrecord", "train-00002-of-00003.tfrecord"]
