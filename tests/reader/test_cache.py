"""``cache``: the same stream in all three modes; a local copy is whole or not there."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.dataset.local_copy import mirror
from shardfeed.dataset.reader_arguments import check_decoded_fits
from shardfeed.format.checksums import crc32c_path, to_hex
from shardfeed.tfdata import streams
from tests.kit.datasets import Written, write_dataset
from tests.reader.damage import SHARD, flip, place
from tests.reader.streams import THREE_BLOCKS


@pytest.mark.filterwarnings("ignore:.*rows of weight 0")
@pytest.mark.parametrize(
    ("split", "size", "options"),
    [
        ("train", None, {"crop": "random_resized", "shuffle_buffer": THREE_BLOCKS, "start_step": 3, "epochs": 6}),
        ("validation", (24, 20), {"label": "onehot"}),
    ],
    ids=["training on varying sizes", "evaluation of one size"],
)
def test_the_stream_is_the_same_in_every_mode(
    tmp_path: Path, split: str, size: tuple[int, int] | None, options: dict[str, Any]
) -> None:
    write_dataset(tmp_path / "data", size=size)

    def batches(cache: str | Path | None) -> list[Any]:
        stream = shardfeed.load(
            tmp_path / "data", split, 8, host=(1, 2), cache=cache, as_dict=True, image_size=12, **options
        )
        return list(stream.as_numpy_iterator())

    plain = batches(None)
    for cache in ("decoded", tmp_path / "copies"):
        for one, other in zip(batches(cache), plain, strict=True):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name]) for name in one)


def test_decoded_images_are_read_once(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    dataset = shardfeed.load(tmp_path, "train", 8, cache="decoded")
    for shard in tmp_path.glob("train-*.tfrecord"):
        shard.unlink()

    assert len(list(dataset.take(20).as_numpy_iterator())) == 20


def test_decoded_images_must_fit_into_memory() -> None:
    with pytest.raises(
        shardfeed.UsageError, match=r"^cache='decoded': 10,000,000,000 images of 3,000,000 bytes are 30,000"
    ):
        check_decoded_fits(3_000_000, 10**10)


def copies(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected_copies(written: Written) -> dict[str, bytes]:
    shards = written.manifest.splits["train"].shards
    return {f"{shard.crc32c}-{shard.file}": (written.path / shard.file).read_bytes() for shard in shards}


def copy(tmp_path: Path) -> None:
    """Copies the split ``train`` of the dataset in ``data`` to ``copies``."""
    info = shardfeed.info(tmp_path / "data")
    mirror(info, info.splits["train"].shards, str(tmp_path / "copies"))


def test_copies_are_looked_through_once_and_read_in_place_of_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_dataset(tmp_path / "data")
    looks = 0

    class Copies(list[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    monkeypatch.setattr(streams, "mirror", lambda *args: Copies(mirror(*args)))
    dataset = shardfeed.load(tmp_path / "data", "train", 8, cache=tmp_path / "copies")
    assert looks == 1
    assert copies(tmp_path / "copies") == expected_copies(written)  # those of the split that is read
    for shard in (tmp_path / "data").glob("*.tfrecord"):
        shard.unlink()

    assert len(list(dataset.take(20).as_numpy_iterator())) == 20


def test_a_copy_that_is_there_is_not_made_again_unless_it_has_another_size(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "data")

    def inodes() -> dict[str, int]:
        return {path.name: os.stat(path).st_ino for path in (tmp_path / "copies").rglob("*.tfrecord")}

    copy(tmp_path)
    before = inodes()
    copy(tmp_path)
    assert inodes() == before
    (cut,) = (tmp_path / "copies").rglob("*-train-00001*")
    cut.write_bytes(cut.read_bytes()[:-1])
    copy(tmp_path)

    assert [name for name, inode in inodes().items() if inode != before[name]] == [cut.name]
    assert copies(tmp_path / "copies") == expected_copies(written)


def test_a_shard_with_a_flipped_bit_is_not_copied(tmp_path: Path) -> None:
    shard = write_dataset(tmp_path / "data").manifest.splits["train"].shards[1]
    path = tmp_path / "data" / shard.file
    flip(path.parent, 100, path.name)

    with pytest.raises(shardfeed.DatasetError) as found:
        copy(tmp_path)

    assert str(found.value) == (
        f"{path} is damaged: expected {shard.bytes:,} bytes with crc32c {shard.crc32c}, found {shard.bytes:,} bytes with "
        f"crc32c {to_hex(crc32c_path(path)[1])}. Copy the file from where the dataset is whole, or build the dataset again "
        "into an empty folder."
    )
    assert not [name for name in copies(tmp_path / "copies") if "train-00001" in name or "tmp" in name]


def started(program: str, tmp_path: Path) -> subprocess.Popen[bytes]:
    """``program``, which copies ``data`` to ``copies``."""
    return subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "data", tmp_path / "copies"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(shardfeed.__file__).parents[1],
    )


COPY = """
import sys, shardfeed
from shardfeed.dataset.local_copy import mirror
info = shardfeed.info(sys.argv[1])
print(flush=True)
sys.stdin.readline()
mirror(info, info.splits["train"].shards, sys.argv[2])
"""


def test_processes_fill_one_folder_at_the_same_time(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "data", splits={"train": 60}, shards=20)
    processes = [started(COPY, tmp_path) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline()  # each has come as far as the others
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert copies(tmp_path / "copies") == expected_copies(written)


STOP = """
import sys, shardfeed
from shardfeed.dataset import local_copy as mirror
from shardfeed.storage.local import LocalStore
read = LocalStore.read_range
def stop(store, name, offset, size):
    if offset:
        print(flush=True)
        sys.stdin.readline()
    return read(store, name, offset, size)
LocalStore.read_range, mirror._REQUEST_BYTES = stop, 1000
info = shardfeed.info(sys.argv[1])
mirror.mirror(info, info.splits["train"].shards, sys.argv[2])
"""


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of its copies of ``data``; it goes on when it is given a line."""
    write_dataset(tmp_path / "data", image_format="raw", shards=2)
    process = started(STOP, tmp_path)
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline()  # a copy each of two shards has begun
    yield process
    process.kill()
    process.communicate()


def unfinished(tmp_path: Path) -> list[str]:
    return sorted(name for name in copies(tmp_path / "copies") if "tmp" in name)


@pytest.mark.parametrize("others_are_there", [False, True])
def test_what_a_killed_process_was_copying_is_deleted(
    tmp_path: Path, stopped: subprocess.Popen[bytes], others_are_there: bool
) -> None:
    if others_are_there:
        copy(tmp_path)
    assert len(unfinished(tmp_path)) == 2
    stopped.kill()
    stopped.wait()

    copy(tmp_path)

    assert not unfinished(tmp_path) and len(copies(tmp_path / "copies")) == 2


def test_what_a_living_process_is_copying_stays(tmp_path: Path, stopped: subprocess.Popen[bytes]) -> None:
    before = unfinished(tmp_path)
    written = shardfeed.info(tmp_path / "data")
    copy(tmp_path)

    assert unfinished(tmp_path) == before and len(before) == 2
    stopped.communicate(b"go\n" * 100)
    assert stopped.returncode == 0
    assert sorted(copies(tmp_path / "copies")) == sorted(
        f"{shard.crc32c}-{shard.file}" for shard in written.splits["train"].shards
    )


def test_a_copy_that_is_swept_before_it_is_locked_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_dataset(tmp_path / "data")
    swept: list[str] = []

    def lock(file: Any, operation: int) -> None:
        if not isinstance(file, int) and len(swept) < 5:  # an int: the folder
            swept.append(file.name)
            os.unlink(file.name)

    monkeypatch.setattr(fcntl, "flock", lock)
    copy(tmp_path)

    assert len(swept) == 5
    assert copies(tmp_path / "copies") == expected_copies(written)


def test_copies_are_made_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_dataset(tmp_path / "data")
    others = tmp_path / "copies" / written.manifest.fingerprint / "crc-train.tfrecord.tmp-1-0123456789abcdef"
    others.parent.mkdir(parents=True)
    others.write_bytes(b"another host may be writing this")

    def lock(file: Any, operation: int) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", lock)
    copy(tmp_path)

    assert others.exists()
    others.unlink()
    assert copies(tmp_path / "copies") == expected_copies(written)


IN_THE_DATASET = " lies in the dataset at {}/data: choose a folder outside of it."
NO_FOLDER = ": expected None, 'decoded' or a local folder for copies of the shards."
A_SLIP = ": expected 'decoded' or a folder, and there is no folder of this name. For a new one, write './Decoded'."


@pytest.mark.parametrize(
    ("cache", "said"),
    [
        ("{}/data", IN_THE_DATASET), ("{}/data/new", IN_THE_DATASET), ("Decoded", A_SLIP),
        ("gs://b/copies", NO_FOLDER), ("", NO_FOLDER), (3, NO_FOLDER),
    ],
)  # fmt: skip
def test_a_cache_that_is_no_folder_for_copies_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Any, said: str
) -> None:
    write_dataset(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    cache = cache.format(tmp_path) if isinstance(cache, str) else cache

    with pytest.raises(shardfeed.UsageError) as found:
        shardfeed.load("data", "train", 8, cache=cache)

    assert str(found.value) == f"cache={cache!r}{said.format(tmp_path)}"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=size))


def test_copies_that_do_not_fit_are_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_dataset(tmp_path / "data")
    needed = written.manifest.splits["train"].bytes
    free(monkeypatch, needed - 1)

    with pytest.raises(shardfeed.StorageError) as found:
        copy(tmp_path)

    assert str(found.value) == (
        f"cache={str(tmp_path / 'copies')!r}: {needed:,} bytes are to be copied to "
        f"{tmp_path / 'copies' / written.manifest.fingerprint}, where {needed - 1:,} bytes are free. "
        "Free some space there, or choose another folder."
    )
    assert copies(tmp_path / "copies") == {}


def test_only_what_is_not_there_yet_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_dataset(tmp_path / "data")
    copy(tmp_path)
    next((tmp_path / "copies").rglob("*-train-00001*")).unlink()
    free(monkeypatch, written.manifest.splits["train"].shards[1].bytes)

    copy(tmp_path)

    assert copies(tmp_path / "copies") == expected_copies(written)


def test_copying_is_told_with_its_size_and_at_each_tenth(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = write_dataset(tmp_path / "data", splits={"train": 60}, shards=30)
    folder = tmp_path / "copies" / written.manifest.fingerprint
    caplog.set_level("INFO", "shardfeed")

    for _ in range(2):  # the second time all are there
        copy(tmp_path)

    assert [record.getMessage() for record in caplog.records if record.name == "shardfeed"] == [
        f"Copying 30 shards, {written.manifest.splits['train'].bytes:,} bytes, to {folder}",
        *(f"Copied {done} of 30 shards to {folder}" for done in range(3, 31, 3)),
    ]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "data")
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"

    with pytest.raises(shardfeed.StorageError) as found:
        shardfeed.load(tmp_path / "data", "train", 8, cache=folder)

    assert str(found.value) == (
        f"cache={str(folder)!r}: {folder / written.manifest.fingerprint} cannot be written (Not a directory). "
        "Choose a folder that can be written."
    )


def test_a_disk_that_fills_up_while_shards_are_copied_needs_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(tmp_path / "data")

    def fill(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fill)

    with pytest.raises(shardfeed.StorageError) as found:
        copy(tmp_path)

    assert str(found.value).endswith("(No space left on device). Free some space there, or choose another folder.")


@pytest.mark.parametrize("cache", ["./copies", "copies/", Path("copies"), "there"], ids=repr)
def test_a_relative_folder_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str | Path) -> None:
    write_dataset(tmp_path / "data")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)

    shardfeed.array_batches("data", "train", 8, cache=cache)

    assert len(list(Path(cache).rglob("*.tfrecord"))) == 3


def test_damage_is_named_by_load_where_load_decodes(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    start = f"{tmp_path / SHARD} is damaged: {place(tmp_path, 0)}: "
    flip(tmp_path, 100)

    with pytest.raises(shardfeed.DatasetError) as found:
        shardfeed.load(tmp_path, "train", 8, cache="decoded")

    assert str(found.value).startswith(start)
