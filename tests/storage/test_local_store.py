"""A disk's own troubles: kills, sweeps under our feet, drives without hard links."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.storage import NotFoundError, StorageError
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.cloud import tree


def before(
    step: str, act: Callable[..., object], kind: type[WritableLocalStore] = WritableLocalStore
) -> type[WritableLocalStore]:
    """A store that calls ``act`` with the arguments of ``step`` before each such step."""

    def method(self: WritableLocalStore, *args: object) -> object:
        act(*args)
        return getattr(kind, step)(self, *args)

    return type("Hooked", (kind,), {step: method})


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    store = WritableLocalStore(str(tmp_path / "out"))
    assert (list(store.list()), store.stat("manifest.json")) == ([], None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("manifest.json", "_parts/tmp"),
        ("_parts/CLAIM", "_parts/tmp"),
        ("_parts/f00d/train/00001.json", "_parts/f00d/tmp"),
    ],
)
def test_temporary_files_lie_where_the_sweep_of_the_same_build_finds_them(
    tmp_path: Path, name: str, folder: str
) -> None:
    seen = list[str]()
    store = before("_link", lambda temp, _final: seen.append(os.path.relpath(os.path.dirname(temp), tmp_path)))
    store(str(tmp_path)).create(name, b"x")
    assert seen == [folder]
    assert tree(tmp_path) == {name: b"x"}


def test_a_sweep_that_takes_the_folders_away_is_survived(tmp_path: Path) -> None:
    attempts = itertools.count(1)
    swept_twice = before("_link", lambda *_: shutil.rmtree(tmp_path / "_parts") if next(attempts) <= 2 else None)
    assert swept_twice(str(tmp_path)).create("_parts/f/train/1", b"x")
    assert tree(tmp_path) == {"_parts/f/train/1": b"x"}


def test_a_folder_that_disappears_for_ever_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    swept_always = before("_link", lambda *_: shutil.rmtree(tmp_path / "_parts"))
    with pytest.raises(StorageError, match="Another process is deleting files in this output: stop it"):
        swept_always(str(tmp_path)).create("_parts/f/train/1", b"x")


class WithoutHardLinks(WritableLocalStore):
    stale_marker_seconds = 0.0
    refusal = errno.EPERM

    def _link(self, temp: str, final: str) -> None:
        raise OSError(self.refusal, os.strerror(self.refusal))


STEPS = [
    "_mkdir", "_write_temp", "_concatenate_temp", "_link", "_mark", "_replace", "_sync_folder", "_unlink", "_rmdir",
]  # fmt: skip


def build(store: WritableLocalStore) -> None:
    """Two parts, a shard of both, and the sweep: what a build does to a disk."""
    store.create("_parts/f/a", b"first|")
    store.create("_parts/f/b", b"second")
    store.compose("train-0", ["_parts/f/a", "_parts/f/b"], scratch="_parts/f/s")
    for name, _ in list(store.list("_parts/")):
        store.delete(name)
    store.prune("_parts")


def die_before(steps: int, kind: type[WritableLocalStore]) -> type[WritableLocalStore]:
    left = itertools.count(steps, -1)
    for step in STEPS:
        kind = before(step, lambda *_: None if next(left) else os.kill(os.getpid(), signal.SIGKILL), kind)
    return kind


def kill_at_every_step(root: str, kind: type[WritableLocalStore]) -> None:
    """Runs ``build`` in children that are killed before their first, second, ... step."""
    for steps in itertools.count():
        child = os.fork()
        if not child:
            build(die_before(steps, kind)(f"{root}/{steps}"))
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


@pytest.mark.parametrize("kind", [WritableLocalStore, WithoutHardLinks], ids=["hard links", "no hard links"])
def test_killed_before_any_step_nothing_is_torn_and_the_same_steps_complete(
    tmp_path: Path, kind: type[WritableLocalStore]
) -> None:
    code = (
        f"from {__name__} import *; kill_at_every_step({str(tmp_path)!r}, {kind.__name__})"  # no threads there to fork
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    complete = {"_parts/f/a": b"first|", "_parts/f/b": b"second", "train-0": b"first|second"}
    runs = sorted(tmp_path.iterdir(), key=lambda run: int(run.name))
    for run in runs:
        torn = {name: data for name, data in tree(run).items() if "/tmp/" not in name and data != complete[name]}
        assert torn == {}, f"killed before step {run.name}"
        build(kind(str(run)))
        assert [str(path.relative_to(run)) for path in run.rglob("*")] == ["train-0"], f"killed before step {run.name}"
        assert tree(run) == {"train-0": b"first|second"}
    assert len(runs) >= 20


@pytest.mark.parametrize("refusal", ["EPERM", "EOPNOTSUPP", "EMLINK", "ENOSYS"])
def test_without_hard_links_a_name_is_still_created_once(tmp_path: Path, refusal: str) -> None:
    store = WithoutHardLinks(str(tmp_path))
    store.refusal = getattr(errno, refusal)
    assert [store.create("manifest.json", b"first"), store.create("manifest.json", b"second")] == [True, False]
    assert tree(tmp_path) == {"manifest.json": b"first"}


@pytest.mark.parametrize(
    ("kind", "step"),
    [(WritableLocalStore, "_link"), (WithoutHardLinks, "_mark")],
    ids=["hard links", "no hard links"],
)
def test_the_writer_that_finishes_first_wins(tmp_path: Path, kind: type[WritableLocalStore], step: str) -> None:
    other = WritableLocalStore(str(tmp_path))
    overtaken = before(step, lambda *_: other.create("manifest.json", b"theirs"), kind)
    assert not overtaken(str(tmp_path)).create("manifest.json", b"ours")
    assert tree(tmp_path) == {"manifest.json": b"theirs"}


def test_a_living_writer_s_marker_is_waited_for(tmp_path: Path, waits: list[float]) -> None:
    class Waiting(WithoutHardLinks):
        stale_marker_seconds = 60.0
        asked = 0

        def _mark(self, marker: str, owner: bytes) -> bool:
            self.asked += 1
            if self.asked == 1:
                Path(marker).write_bytes(b"theirs")  # another writer is between its marker and its replace
            if self.asked == 3:
                (tmp_path / "manifest.json").write_bytes(b"theirs")
                os.unlink(marker)
            return super()._mark(marker, owner)

    store = Waiting(str(tmp_path))
    assert not store.create("manifest.json", b"ours")
    assert (store.asked, len(waits), tree(tmp_path)) == (3, 1, {"manifest.json": b"theirs"})


def test_a_dead_writer_s_marker_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "_parts/tmp").mkdir(parents=True)
    (tmp_path / "_parts/tmp/manifest.json.marker").write_bytes(b"tmp-1-dead")
    assert WithoutHardLinks(str(tmp_path)).create("manifest.json", b"ours")
    assert tree(tmp_path) == {"manifest.json": b"ours"}


@pytest.mark.parametrize("refusal", ["EXDEV", "ENOSYS", "EOPNOTSUPP", "EINVAL", "there is no such call"])
def test_composing_copies_by_hand_where_the_kernel_will_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(getattr(errno, refusal), refusal)

    if hasattr(errno, refusal):
        monkeypatch.setattr(os, "copy_file_range", refuse)
    else:
        monkeypatch.delattr(os, "copy_file_range")
    store = WritableLocalStore(str(tmp_path))
    store.create("_parts/f/a", b"a" * 3_000_000)
    store.create("_parts/f/b", b"b")
    assert store.compose("whole", ["_parts/f/a", "_parts/f/b", "_parts/f/a"], scratch="_parts/f/s")
    assert store.read("whole") == b"a" * 3_000_000 + b"b" + b"a" * 3_000_000


@pytest.mark.parametrize("then", ["copies more", "refuses"])
def test_composing_goes_on_after_the_kernel_copied_a_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    copy, calls = os.copy_file_range, iter(range(1000))

    def piece(source: int, target: int, count: int) -> int:
        if next(calls) % 2 and then == "refuses":
            raise OSError(errno.EINVAL, "no more")
        return copy(source, target, min(count, 7))

    monkeypatch.setattr(os, "copy_file_range", piece)
    store = WritableLocalStore(str(tmp_path))
    store.create("_parts/f/a", bytes(range(256)))
    assert store.compose("whole", ["_parts/f/a", "_parts/f/a"], scratch="_parts/f/s")
    assert store.read("whole") == bytes(range(256)) * 2


def test_composing_a_missing_part_names_it_and_leaves_nothing(tmp_path: Path) -> None:
    store = WritableLocalStore(str(tmp_path))
    store.create("_parts/f/a", b"ab")
    with pytest.raises(NotFoundError, match="_parts/f/gone is not there"):
        store.compose("whole", ["_parts/f/a", "_parts/f/gone"], scratch="_parts/f/s")
    assert tree(tmp_path) == {"_parts/f/a": b"ab"}


def test_foreign_files_and_links_are_listed_too(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read me.txt").write_bytes(b"12")
    (tmp_path / "link").symlink_to("/nowhere")
    (tmp_path / "folder link").symlink_to("notes")
    assert sorted(name for name, _ in WritableLocalStore(str(tmp_path)).list()) == [
        "folder link",
        "link",
        "notes/read me.txt",
    ]


def test_pruning_removes_empty_folders_bottom_up_and_only_those(tmp_path: Path) -> None:
    (tmp_path / "_parts/f/train/deep").mkdir(parents=True)
    (tmp_path / "_parts/g/train").mkdir(parents=True)
    (tmp_path / "_parts/g/train/00000.json").write_bytes(b"")
    WritableLocalStore(str(tmp_path)).prune("_parts")
    WritableLocalStore(str(tmp_path)).prune("never was")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "_parts",
        "_parts/g",
        "_parts/g/train",
        "_parts/g/train/00000.json",
    ]


def test_files_obey_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        WritableLocalStore(str(tmp_path)).create("manifest.json", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "manifest.json").stat().st_mode & 0o777 == 0o640


def test_a_relative_output_and_a_home_folder_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    WritableLocalStore("out").create("a", b"relative", durable=True)
    WritableLocalStore("~/out").create("a", b"home", durable=True)
    assert tree(tmp_path) == {"out/a": b"relative", "home/out/a": b"home"}


def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "shard")
    store = WritableLocalStore(str(tmp_path))
    assert store.read("shard") == b""
    with pytest.raises(StorageError, match="shard"):
        store.read_range("shard", 0, 10)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced to the disk, in order: contents of files, names of folders with a slash."""
    names: list[str] = []
    sync = os.fsync

    def noting(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        names.append(f"{os.path.basename(path)}/" if os.path.isdir(path) else Path(path).read_text())
        sync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    return names


def test_a_durable_file_is_synced_before_its_name_and_its_folder_after(tmp_path: Path, synced: list[str]) -> None:
    """A machine that loses its power must not have a manifest without the files that it names."""
    store = WritableLocalStore(str(tmp_path / "out"))
    store.create("classes.txt", b"cat", durable=True)
    store.create("manifest.json", b"everything", durable=True)
    store.create("_parts/f/train/1", b"ab")
    store.create("_parts/f/train/2", b"cd")
    store.compose("train-0", ["_parts/f/train/1", "_parts/f/train/2"], scratch="_parts/f/compose")
    assert synced == ["cat", "out/", "everything", "out/", "abcd", "out/"]
