"""A local input folder: names byte for byte, nothing left out, only the listed version read."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.storage import Stat, StorageError, UnreadableError
from shardfeed.transforms.sources.base import ChangedError, Listed
from shardfeed.transforms.sources.local import LocalSource
from tests.storage.conftest import OrdinaryUser
from tests.storage.listings import listing


def kinds(root: Path) -> dict[bytes, str]:
    return {key: entry.kind for key, entry in listing(LocalSource(str(root))).items()}


def test_sections_are_the_first_level_folders_and_the_files_beside_them(tmp_path: Path) -> None:
    for name in ("cat/a.jpg", "cat/deep/er/b.jpg", "dog/a.jpg", "README"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "empty").mkdir()
    source = LocalSource(str(tmp_path))
    assert {section: sorted(e.key for e in source.list(section)) for section in source.sections()} == {
        b"": [b"README"],
        b"cat": [b"cat/a.jpg", b"cat/deep/er/b.jpg"],
        b"dog": [b"dog/a.jpg"],
        b"empty": [],
    }


def test_size_and_version_are_the_file_s_and_the_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat/a.jpg").write_bytes(b"pixels")
    os.utime(tmp_path / "cat/a.jpg", ns=(0, 1_234_567_890_123_456_789))
    source = LocalSource(str(tmp_path))
    entry = Listed(b"cat/a.jpg", Stat(6, 1_234_567_890_123_456_789))
    assert listing(source) == {b"cat/a.jpg": entry}
    assert source.read(entry.key, entry.stat) == b"pixels"


@pytest.mark.parametrize(
    ("seconds", "version"),
    [
        (-15 * 365 * 86_400, -473_040_000_000_000_000),
        (2**63 // 10**9, 9_223_372_036_000_000_000),
        (2**63 // 10**9 + 1, 9_223_372_037_000_000_000 - 2**64),
        (10_413_792_000, 10_413_792_000_000_000_000 - 2**64),
    ],
    ids=["1955", "the last second of 64 bits", "one second later", "2300"],
)
def test_a_version_is_the_low_64_bits_of_the_time_in_nanoseconds(tmp_path: Path, seconds: int, version: int) -> None:
    (tmp_path / "a.jpg").write_bytes(b"pixels")
    os.utime(tmp_path / "a.jpg", ns=(0, seconds * 10**9))
    source = LocalSource(str(tmp_path))
    (entry,) = source.list(b"")
    assert entry.stat == Stat(6, version)
    assert source.read(entry.key, entry.stat) == b"pixels"


@pytest.mark.parametrize(
    "name",
    [
        b" lead and trail ", b"%20", b"#", b"?", b"*[1]{a,b}", b"a\nb\tc", b"quote\"'\\", b"-rf", b".hidden",
        b"caf\xc3\xa9", b"e\xcc\x81", b"\xf0\x9f\x98\x80", b"\xff\xfe not utf-8", b"\xe2\x80\xae rtl", b"n" * 255,
    ],
    ids=lambda name: ascii(name.decode("utf-8", "backslashreplace"))[:20],
)  # fmt: skip
def test_any_name_a_disk_can_hold_is_listed_and_read_byte_for_byte(tmp_path: Path, name: bytes) -> None:
    folder = os.fsencode(tmp_path) + b"/" + name
    os.mkdir(folder)
    with open(folder + b"/" + name, "wb") as file:
        file.write(name)
    source = LocalSource(str(tmp_path))
    found = listing(source)
    assert list(found) == [name + b"/" + name]
    assert source.read(name + b"/" + name, found[name + b"/" + name].stat) == name


def test_a_link_to_an_image_in_the_same_root_is_a_file_with_the_image_s_size(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat/real.jpg").write_bytes(b"pixels")
    (tmp_path / "cat/link.jpg").symlink_to("real.jpg")
    source = LocalSource(str(tmp_path))
    found = listing(source)
    assert found[b"cat/link.jpg"] == Listed(b"cat/link.jpg", found[b"cat/real.jpg"].stat)
    assert source.read(b"cat/link.jpg", found[b"cat/link.jpg"].stat) == b"pixels"


def test_links_that_lead_nowhere_out_or_to_folders_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-twin"
    (root / "cat").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.jpg").write_bytes(b"secret")
    targets = {
        "dangling": "gone.jpg",
        "loop": "loop",
        "out": "../../root-twin/secret.jpg",
        "folder": "../cat",
        "up": "..",
    }
    for name, target in targets.items():
        (root / "cat" / name).symlink_to(target)
    (root / "linked-class").symlink_to("cat")
    expected = {b"cat/" + name.encode(): "symlink" for name in targets} | {b"linked-class": "symlink"}
    assert kinds(root) == expected


def test_pipes_sockets_and_devices_are_special(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c/pipe")
    listening = socket.socket(socket.AF_UNIX)
    here = os.open(tmp_path / "c", os.O_RDONLY)  # a socket's path may be 107 bytes long, a test's folder is longer
    listening.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)
    listening.close()
    (tmp_path / "c/null").symlink_to("/dev/null")
    assert kinds(tmp_path) == {b"c/pipe": "special", b"c/socket": "special", b"c/null": "symlink"}


def test_a_root_that_is_a_link_to_a_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real/cat").mkdir(parents=True)
    (tmp_path / "real/cat/a.jpg").write_bytes(b"x")
    (tmp_path / "real/cat/b.jpg").symlink_to("a.jpg")
    (tmp_path / "link").symlink_to("real")
    assert kinds(tmp_path / "link") == {b"cat/a.jpg": "file", b"cat/b.jpg": "file"}


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ("", "the input is an empty string. Name a folder, for example"),
        ("gone", "does not exist. Check the spelling; relative paths start at the current folder."),
        (
            "file",
            "is not a folder. Name the folder that holds one folder per class; a list of images is written @FILE.",
        ),
    ],
    ids=["empty", "missing", "a file"],
)
def test_a_root_that_cannot_be_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(UnreadableError) as raised:
        LocalSource(root).sections()
    assert said in str(raised.value) and root in str(raised.value)


@pytest.mark.parametrize(
    ("denied", "mode", "said"),
    [
        ("", 0o000, "input folder {root} may not be listed"),
        ("cat/deep", 0o000, r"input folder {root}/cat/deep .*chmod -R u\+rX {root}"),
        ("cat/deep", 0o444, r"input folder {root}/cat/deep .*chmod -R u\+rX {root}"),
        ("cat/deep/a.jpg", 0o000, r"no permission to read {root}/cat/deep/a\.jpg\. Make it readable \(chmod u\+r"),
    ],
    ids=["root", "may not be listed", "may not be entered", "image"],
)
def test_what_may_not_be_read_is_an_error_that_names_it_never_skipped(
    as_ordinary_user: OrdinaryUser, denied: str, mode: int, said: str
) -> None:
    with as_ordinary_user() as root:
        (root / "cat/deep").mkdir(parents=True)
        (root / "cat/deep/a.jpg").write_bytes(b"x")
        (root / denied).chmod(mode)
        source = LocalSource(str(root))
        with pytest.raises(UnreadableError, match=said.format(root=root)):
            for entry in listing(source).values():
                source.read(entry.key, entry.stat)


def overwrite_same_size(path: Path) -> None:
    path.write_bytes(b"PIXELS")
    os.utime(path, ns=(0, 5))


def grow(path: Path) -> None:
    before = path.stat().st_mtime_ns
    path.write_bytes(b"pixels and more")
    os.utime(path, ns=(before, before))


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def lose_the_folder(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(b"a file now")


@pytest.mark.parametrize(
    "change",
    [overwrite_same_size, grow, Path.unlink, become_a_pipe, become_a_folder, become_a_loop, lose_the_folder],
    ids=lambda change: change.__name__,
)
def test_an_image_that_is_not_the_listed_one_any_more_is_changed(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path = tmp_path / "cat/a.jpg"
    path.parent.mkdir()
    path.write_bytes(b"pixels")
    source = LocalSource(str(tmp_path))
    (entry,) = source.list(b"cat")
    assert source.read(entry.key, entry.stat) == b"pixels"
    change(path)
    with pytest.raises(ChangedError, match=r"cat/a\.jpg"):
        source.read(entry.key, entry.stat)


def test_a_pipe_in_the_place_of_an_empty_image_of_the_same_time_is_changed(tmp_path: Path) -> None:
    source, path = LocalSource(str(tmp_path)), tmp_path / "a.jpg"
    path.write_bytes(b"")
    (entry,) = source.list(b"")
    become_a_pipe(path)
    os.utime(path, ns=(0, entry.stat.version))
    with pytest.raises(ChangedError, match=r"a\.jpg"):
        source.read(entry.key, entry.stat)


def test_an_image_that_is_overwritten_in_place_while_it_is_read_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path = LocalSource(str(tmp_path)), tmp_path / "a.jpg"
    path.write_bytes(b"old bytes!")
    os.utime(path, ns=(0, 5))
    (entry,) = source.list(b"")
    fstat, looks = os.fstat, itertools.count(1)

    def overwrite_before_the_second_look(file: int) -> os.stat_result:
        if next(looks) == 2:
            with open(path, "r+b") as there:
                there.write(b"new bytes!")
        return fstat(file)

    monkeypatch.setattr(os, "fstat", overwrite_before_the_second_look)
    with pytest.raises(ChangedError, match=r"a\.jpg changed while it was read"):
        source.read(entry.key, entry.stat)


class Flaky(LocalSource):
    """A network drive that answers with an error before it answers."""

    failures = 0
    reads = 0

    def _read(self, key: bytes, stat: Stat, offset: int, size: int) -> bytes:
        self.reads += 1
        if self.reads <= self.failures:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super()._read(key, stat, offset, size)


def test_a_drive_s_passing_fault_is_ridden_out(tmp_path: Path, waits: list[float]) -> None:
    (tmp_path / "a.jpg").write_bytes(b"pixels")
    source = Flaky(str(tmp_path))
    source.failures = 3
    (entry,) = source.list(b"")
    assert (source.read(entry.key, entry.stat), source.reads, len(waits)) == (b"pixels", 4, 3)


def test_a_drive_s_lasting_fault_is_an_error_that_names_the_file(tmp_path: Path, waits: list[float]) -> None:
    (tmp_path / "a.jpg").write_bytes(b"pixels")
    source = Flaky(str(tmp_path))
    source.failures = 99
    (entry,) = source.list(b"")
    with pytest.raises(StorageError, match=f"cannot read {tmp_path}/a.jpg: Input/output error, 4 times"):
        source.read(entry.key, entry.stat)


def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"pixels")
    source = LocalSource(str(tmp_path))
    (entry,) = source.list(b"")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        source.read(entry.key, entry.stat)
        with pytest.raises(ChangedError):
            source.read(entry.key, Stat(1, 1))
    assert len(os.listdir("/proc/self/fd")) == before
