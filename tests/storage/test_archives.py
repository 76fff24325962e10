"""zip and tar as input roots: every member is read where it lies, and nothing hostile gets through."""

from __future__ import annotations

import io
import os
import pickle
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.errors import UsageError
from shardfeed.storage import UnreadableError
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.sources.base import ChangedError, ChecksumError
from shardfeed.transforms.stores import open_output
from tests.storage.listings import listing

MEMBERS = {b"cat/1.jpg": b"stored", b"cat/\xc3\xa9 2.jpg": b"x" * 5_000, b"dog/deep/3.jpg": os.urandom(70_000)}


def make_zip(path: Path, members: dict[bytes, bytes] = MEMBERS, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("cat/", b"")
        for name, data in members.items():
            archive.writestr(name.decode(), data)
    return path


def make_tar(path: Path, members: dict[bytes, bytes] = MEMBERS, form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as archive:
        folder = tarfile.TarInfo("./")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in members.items():
            info = tarfile.TarInfo("./" + name.decode("utf-8", "surrogateescape"))
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


MAKE: dict[str, Callable[[Path, dict[bytes, bytes]], Path]] = {"zip": make_zip, "tar": make_tar}


def contents(path: str | Path) -> dict[bytes, bytes]:
    """What another process reads than the one that lists."""
    source = open_source(str(path))
    reader = open_source(pickle.loads(pickle.dumps(source.url)))
    return {key: reader.read(key, entry.stat) for key, entry in listing(source).items()}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def test_members_of_a_zip_are_read_by_another_process_than_the_one_that_lists(tmp_path: Path, method: int) -> None:
    assert contents(make_zip(tmp_path / "a.zip", method=method)) == MEMBERS


def test_a_zip_of_64_bit_sizes_and_places_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    path = make_zip(tmp_path / "a.zip")
    assert b"PK\6\6" in path.read_bytes()
    assert contents(path) == MEMBERS


def test_bytes_before_a_zip_and_a_comment_behind_it_do_not_matter(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"made by hand " * 100
    path.write_bytes(b"#!/bin/sh\n" * 1000 + path.read_bytes())
    assert contents(path) == MEMBERS


def test_a_member_whose_local_header_is_longer_than_the_directory_tells_is_read_whole(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("cat/1.jpg")
        info.extra = struct.pack("<HH", 0xCAFE, 500) + bytes(500)
        archive.writestr(info, b"pixels")
        info.extra = b""  # in the directory, which is written last
    assert contents(tmp_path / "a.zip") == {b"cat/1.jpg": b"pixels"}


def test_a_zip_that_was_streamed_has_its_sizes_in_the_directory_only(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise io.UnsupportedOperation

        def seek(self, *_: object) -> int:
            raise io.UnsupportedOperation

    with zipfile.ZipFile(pipe := Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in MEMBERS.items():
            archive.writestr(name.decode(), data)
    (tmp_path / "a.zip").write_bytes(pipe.getvalue())
    assert contents(tmp_path / "a.zip") == MEMBERS


def test_the_version_of_a_zip_s_member_is_that_of_its_bytes(tmp_path: Path) -> None:
    one = make_zip(tmp_path / "1.zip")
    other = make_zip(tmp_path / "2.zip", dict(reversed(MEMBERS.items())), zipfile.ZIP_STORED)
    assert listing(open_source(str(one))) == listing(open_source(str(other)))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=str)
def test_members_of_a_tar_are_read_where_they_lie(tmp_path: Path, form: int) -> None:
    members = MEMBERS | ({b"n" * 150 + b"/\xff.jpg": b"long"} if form != tarfile.USTAR_FORMAT else {})
    assert contents(make_tar(tmp_path / "a.tar", members, form)) == members


def test_links_and_devices_in_an_archive_are_skipped_by_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        for name, kind in ((b"cat/link.jpg", stat.S_IFLNK), (b"cat/pipe.jpg", stat.S_IFIFO)):
            info = zipfile.ZipInfo(name.decode())
            info.create_system, info.external_attr = 3, (kind | 0o644) << 16
            zipped.writestr(info, b"/etc/passwd")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        kinds = {"link.jpg": tarfile.SYMTYPE, "hard.jpg": tarfile.LNKTYPE, "pipe.jpg": tarfile.FIFOTYPE}
        for text, type_ in kinds.items():
            member = tarfile.TarInfo(f"cat/{text}")
            member.type, member.linkname = type_, "../../etc/passwd"
            tar.addfile(member)

    found = {
        name: {key: entry.kind for key, entry in listing(open_source(str(tmp_path / name))).items()}
        for name in ("a.zip", "a.tar")
    }

    assert found["a.zip"] == {b"cat/link.jpg": "symlink", b"cat/pipe.jpg": "special"}
    assert found["a.tar"] == {b"cat/link.jpg": "symlink", b"cat/hard.jpg": "symlink", b"cat/pipe.jpg": "special"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tar", b"../cat/1.jpg")]
    + [("zip", name) for name in (b"../cat/1.jpg", b"cat/../../1.jpg", b"/cat/1.jpg", b"cat//1.jpg", b"cat/./1.jpg")],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, kind: str, name: bytes) -> None:
    path = MAKE[kind](tmp_path / f"a.{kind}", {name: b"x"})
    with pytest.raises(UsageError, match=r"which is absolute or has an empty part, \. or \.\."):
        listing(open_source(str(path)))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_equal_names_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(make_zip(tmp_path / "a.zip"), "a") as archive:
        archive.writestr("cat/1.jpg", b"other")
    with tarfile.open(make_tar(tmp_path / "a.tar"), "a") as tar:
        tar.addfile(tarfile.TarInfo("cat/1.jpg"))
    for name in ("a.zip", "a.tar"):
        with pytest.raises(UsageError, match=rf"{name} holds two members of the name cat/1\.jpg"):
            listing(open_source(str(tmp_path / name)))


def patched(path: Path, signature: bytes, at: int, code: str, value: int) -> Path:
    """``path`` with a field of its first structure of this ``signature`` changed."""
    data = bytearray(path.read_bytes())
    struct.pack_into(f"<{code}", data, data.index(signature) + at, value)
    path.write_bytes(data)
    return path


def test_a_zip_of_backslashes_is_refused_unless_a_unix_made_it(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {b"cat\\1.jpg": b"x"})
    assert list(listing(open_source(str(path)))) == [b"cat\\1.jpg"]
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\1\2") + 5] = 0  # made by MS-DOS
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"holds the name cat\\+1.jpg: some programs of Windows"):
        listing(open_source(str(path)))


@pytest.mark.parametrize(
    ("signature", "at", "code", "value", "said"),
    [
        (b"PK\1\2", 8, "H", 1, r"is encrypted \(member cat/\)"),
        (b"PK\1\2", 10, "H", 12, r"packs cat/ by method 12; read are 0 \(stored\) and 8 \(deflated\)"),
        (b"PK\1\2", 0, "I", 0, "is damaged: byte 0 of its directory begins no entry"),
        (b"PK\1\2", 28, "H", 0xFFFF, "is damaged: byte 0 of its directory begins no entry"),
        (b"PK\5\6", 12, "I", 0xFFFFFF, "is damaged or too large: a directory of 16,777,215 bytes"),
        (b"PK\5\6", 4, "H", 1, "is one of several volumes"),
        (b"PK\5\6", 0, "I", 0, "is no zip, or its end is missing"),
    ],
    ids=["encrypted", "method", "directory", "entry cut", "directory too long", "volumes", "end"],
)
def test_a_zip_that_cannot_be_read_is_refused_before_any_work(
    tmp_path: Path, signature: bytes, at: int, code: str, value: int, said: str
) -> None:
    path = patched(make_zip(tmp_path / "a.zip"), signature, at, code, value)
    with pytest.raises(UsageError, match=said):
        listing(open_source(str(path)))


def zip_of_one(path: Path, size: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/1.jpg", bytes(size))
    return path


@pytest.mark.parametrize(
    ("signature", "at", "value", "said"),
    [
        (b"PK\1\2", 24, 1_000_001, "unpacks to less than the 1,000,001 bytes"),
        (b"PK\1\2", 16, 7, "the zip says 00000007"),
        (b"PK\1\2", 20, 1 << 30, "packed bytes for 1,000,000: the zip is damaged"),
        (b"PK\1\2", 42, 1 << 31, "the zip is damaged: no member at byte 2,147,483,648"),
        (b"PK\1\2", 42, 5, "the zip is damaged: no member at byte 5"),
        (b"PK\3\4", 35, 0, "the zip is damaged: no member at byte 0"),
    ],
    ids=["short", "checksum", "packed size", "place behind the end", "wrong place", "another name"],
)
def test_a_member_that_is_not_what_the_directory_says_is_a_reject(
    tmp_path: Path, signature: bytes, at: int, value: int, said: str
) -> None:
    path = zip_of_one(tmp_path / "a.zip", 1_000_000)
    source = open_source(str(patched(path, signature, at, "I", value)))
    (entry,) = listing(source).values()
    with pytest.raises(ChecksumError, match=said):
        source.read(entry.key, entry.stat)


def test_a_bomb_is_a_reject_and_takes_no_more_memory_than_it_promises(tmp_path: Path) -> None:
    path = zip_of_one(tmp_path / "a.zip", 64 << 20)  # packed to 65 kB
    source = open_source(str(patched(path, b"PK\1\2", 24, "I", 40_000)))
    (entry,) = listing(source).values()
    tracemalloc.start()
    try:
        with pytest.raises(ChecksumError, match="unpacks to more than the 40,000 bytes that the zip promises"):
            source.read(entry.key, entry.stat)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", MAKE)
def test_an_archive_that_is_replaced_while_it_is_read_gives_no_image_of_the_new_one(tmp_path: Path, kind: str) -> None:
    make = MAKE[kind]
    path = make(tmp_path / f"a.{kind}", MEMBERS)
    entries = listing(source := open_source(str(path))).values()
    make(path, {name: data[::-1] + b"\0" for name, data in MEMBERS.items()})
    os.utime(path, ns=(0, 1))
    for reader in (source, open_source(str(path))):
        for entry in entries:
            with pytest.raises((ChangedError, ChecksumError)):
                reader.read(entry.key, entry.stat)


@pytest.mark.parametrize("size", [0, 100, 1024, 7_000, 76_700])
def test_a_tar_that_is_cut_is_refused_and_not_read_in_part(tmp_path: Path, size: int) -> None:
    path = make_tar(tmp_path / "a.tar", form=tarfile.USTAR_FORMAT)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UsageError, match="is no tar, or it is damaged"):
        listing(open_source(str(path)))


def test_a_damaged_header_does_not_hide_the_members_behind_it(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tar", form=tarfile.USTAR_FORMAT)
    data = path.read_bytes()
    at = data.index("cat/é 2.jpg".encode())
    path.write_bytes(data[:at] + b"C" + data[at + 1 :])
    with pytest.raises(UsageError, match="no header and no end at byte"):
        listing(open_source(str(path)))


@pytest.mark.parametrize("name", ["a.tar.gz", "a.TGZ", "gs://bucket/a.tar.zst", "a.tbz2"])
def test_a_packed_tar_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"a packed tar can only be read from its beginning.*Unpack it once to a plain \.tar"
    ):
        open_source(name)


def test_an_archive_that_is_not_there_is_named_and_a_folder_of_such_a_name_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"none.zip does not exist. Check the spelling"):
        open_source(str(tmp_path / "none.zip")).check()
    (tmp_path / "photos.zip" / "cat").mkdir(parents=True)
    (tmp_path / "photos.zip" / "cat" / "1.jpg").write_bytes(b"x")
    assert contents(tmp_path / "photos.zip") == {b"cat/1.jpg": b"x"}


@pytest.mark.parametrize("kind", MAKE)
def test_an_archive_in_a_bucket_is_read_by_ranges_in_the_version_that_was_listed(
    gcs_bucket: str, tmp_path: Path, kind: str
) -> None:
    store, name = open_output(gcs_bucket), f"a.{kind}"
    store.create(name, MAKE[kind](tmp_path / name, MEMBERS).read_bytes())
    assert contents(f"{gcs_bucket}/{name}") == MEMBERS
    source = open_source(f"{gcs_bucket}/{name}")
    entries = listing(source).values()

    store.delete(name)
    store.create(name, MAKE[kind](tmp_path / name, {key: data[::-1] for key, data in MEMBERS.items()}).read_bytes())

    for entry in entries:
        with pytest.raises(ChangedError):
            source.read(entry.key, entry.stat)
