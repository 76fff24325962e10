"""A disk that is full or does not let us write or read: what is named, and that nothing is left."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.errors import UsageError
from shardfeed.storage import StorageError
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.cloud import tree
from tests.storage.conftest import OrdinaryUser


@pytest.mark.parametrize("full", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_says_what_was_to_be_written_and_leaves_nothing(tmp_path: Path, full: str) -> None:
    class Full(WritableLocalStore):
        def _write_temp(self, path: str, data: bytes, durable: bool) -> None:
            super()._write_temp(path, data[:1000], durable)
            raise OSError(getattr(errno, full), os.strerror(getattr(errno, full)))

    with pytest.raises(StorageError) as raised:
        Full(str(tmp_path)).create("_parts/f/train/1", bytes(1_234_567))
    assert str(raised.value) == (
        f"disk full: 1,234,567 bytes of {tmp_path}/_parts/f/train/1 cannot be written "
        f"({os.strerror(getattr(errno, full))}). Free some space or choose an --output on another disk, then run the "
        "same command again."
    )
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            errno.ENOSPC,
            "disk full: {folder}/train-0 cannot be written (No space left on device). Free some space or choose an "
            "--output on another disk, then run the same command again.",
        ),
        (errno.EIO, "cannot read {folder}/_parts/f/a: Input/output error"),
    ],
    ids=["disk full", "a part cannot be read"],
)
def test_a_failure_while_composing_names_what_failed_and_leaves_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int, said: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(refusal, os.strerror(refusal))

    store = WritableLocalStore(str(tmp_path))
    store.create("_parts/f/a", b"ab")
    monkeypatch.setattr(os, "copy_file_range", refuse)
    with pytest.raises(StorageError) as raised:
        store.compose("train-0", ["_parts/f/a"], scratch="_parts/f/s")
    assert str(raised.value).startswith(said.format(folder=tmp_path))
    assert tree(tmp_path) == {"_parts/f/a": b"ab"}


def error_of(code: str, most: int) -> str:
    """The last line that a program says, whose files may have ``most`` bytes."""
    limit = f"import os, resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))\n"
    store = "from shardfeed.transforms.stores.local import WritableLocalStore\n"
    env = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run([sys.executable, "-c", limit + store + code], capture_output=True, text=True, env=env)
    return ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("by_hand", [False, True], ids=["copied by the kernel", "copied by hand"])
def test_a_real_limit_on_file_sizes_while_composing_names_the_whole(tmp_path: Path, by_hand: bool) -> None:
    WritableLocalStore(str(tmp_path)).create("_parts/f/a", bytes(600_000))
    code = (
        f"if {by_hand}: del os.copy_file_range\n"
        f"WritableLocalStore({str(tmp_path)!r}).compose('train-0', ['_parts/f/a'] * 2, scratch='_parts/f/s')"
    )
    assert error_of(code, 1_000_000).startswith(f"shardfeed.errors.UsageError: {tmp_path}/train-0 is too large")
    assert list(tree(tmp_path)) == ["_parts/f/a"]


def test_a_real_limit_on_file_sizes_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    code = f"WritableLocalStore({str(tmp_path)!r}).create('train-0', bytes(5000))"
    assert error_of(code, 1000) == (
        f"shardfeed.errors.UsageError: {tmp_path}/train-0 is too large for a file on this disk (File too large). Choose "
        "an --output on another disk; or a smaller --shard_bytes or more --num_shards, with --discard_incomplete."
    )
    assert tree(tmp_path) == {}


def test_an_output_without_permission_to_write_is_named(as_ordinary_user: OrdinaryUser) -> None:
    with as_ordinary_user() as folder:
        folder.chmod(0o500)
        with pytest.raises(UsageError) as raised:
            WritableLocalStore(str(folder)).create("manifest.json", b"x")
    assert str(raised.value) == (
        f"cannot write to the output: {folder}/manifest.json (Permission denied). Allowed is a folder that this user owns "
        "or may write to: change its permissions (chmod, chown) or choose another --output."
    )


def test_a_read_only_disk_is_named(tmp_path: Path) -> None:
    class ReadOnly(WritableLocalStore):
        def _mkdir(self, path: str) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with pytest.raises(UsageError, match=r"manifest\.json \(Read-only file system\)"):
        ReadOnly(str(tmp_path)).create("manifest.json", b"x")


@pytest.mark.parametrize("output", ["file", "file/below"])
def test_an_output_that_is_a_file_is_refused(tmp_path: Path, output: str) -> None:
    (tmp_path / "file").write_bytes(b"precious")
    store = WritableLocalStore(str(tmp_path / output))
    with pytest.raises(UsageError, match="Something that is not a folder stands in the way"):
        store.create("manifest.json", b"x")
    with pytest.raises(UsageError) as raised:
        list(store.list())
    assert str(raised.value) == (
        f"cannot use {tmp_path / output} (Not a directory). Something that is not a folder stands in the way: remove it or "
        "choose another --output."
    )
    assert tree(tmp_path) == {"file": b"precious"}


@pytest.mark.parametrize(
    ("denied", "ask", "named"),
    [
        ("out", lambda store: store.stat("manifest.json"), "out/manifest.json"),
        ("out", lambda store: list(store.list()), "out"),
        ("out/_parts", lambda store: list(store.list()), "out/_parts"),
        ("out/manifest.json", lambda store: store.read("manifest.json"), "out/manifest.json"),
    ],
    ids=["look for a file", "list the folder", "list a folder below", "read a file"],
)
def test_reading_without_permission_names_the_place_and_how_to_open_it(
    as_ordinary_user: OrdinaryUser, denied: str, ask: Callable[[WritableLocalStore], object], named: str
) -> None:
    with as_ordinary_user() as folder:
        (folder / "out/_parts").mkdir(parents=True)
        (folder / "out/manifest.json").write_bytes(b"{}")
        (folder / denied).chmod(0)
        with pytest.raises(UsageError) as raised:
            ask(WritableLocalStore(str(folder / "out")))
        (folder / denied).chmod(0o700)
    assert str(raised.value) == (
        f"no permission to read {folder / named} (Permission denied). Make the dataset readable for this user "
        f"(chmod -R u+rX {folder}/out; as its owner: a+rX lets everybody read), or name another folder."
    )


def test_a_link_whose_target_may_not_be_looked_at_is_named(as_ordinary_user: OrdinaryUser) -> None:
    """As those in ``/proc/1`` are for others than root."""
    with as_ordinary_user() as folder:
        (folder / "closed").mkdir()
        (folder / "out").mkdir()
        (folder / "out/cwd").symlink_to(folder / "closed" / "file")
        (folder / "closed").chmod(0)
        with pytest.raises(UsageError) as raised:
            list(WritableLocalStore(str(folder / "out")).list())
        (folder / "closed").chmod(0o700)
    assert str(raised.value).startswith(f"no permission to read {folder}/out/cwd (Permission denied). ")
