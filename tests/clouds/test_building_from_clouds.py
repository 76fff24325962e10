"""A build out of s3:// and az:// has the bytes of a build of the same folder on a disk."""

from __future__ import annotations

import http.client
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.store import AzureStore, S3Store

from shardfeed.storage import UnreadableError
from shardfeed.storage.object_store import ObjectStore
from shardfeed.transforms.sources import object_store, open_source
from shardfeed.transforms.sources.base import ChangedError
from tests.kit import builds
from tests.kit.builder import Ended
from tests.kit.cloud import comparable
from tests.kit.commands import write_photos
from tests.kit.servers.clouds import make_bucket, make_container

if TYPE_CHECKING:
    from obstore.store import ClientConfig

FOLDER = "a b/photos"
SHARDS = [f"train-0000{shard}-of-00002.{end}" for shard in range(2) for end in ("tfrecord", "tfrecord.idx")]


@dataclass(frozen=True)
class Bucket:
    """The folder ``url`` of a new bucket, which is opened by ``client``."""

    url: str
    client: S3Store | AzureStore

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.client, f"{FOLDER}/{key}", data)


@pytest.fixture(params=["s3", "az"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    name = f"bucket-{uuid.uuid4().hex}"
    options: ClientConfig = {"allow_http": True}
    if request.param == "s3":
        make_bucket(request.getfixturevalue("aws"), name)
        return Bucket(f"s3://{name}/{FOLDER}", S3Store(name, client_options=options))
    make_container(request.getfixturevalue("azure"), name)
    return Bucket(f"az://{name}/{FOLDER}", AzureStore(name, client_options=options))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def build(source: str | Path, out: Path, *flags: str) -> Ended:
    """A build of tiny images, which finds the clouds where this process does."""
    env = {name: value for name, value in os.environ.items() if name.startswith("A")}
    return builds.run("build", "--input", str(source), "--output", str(out), "--image_size", "16", *flags, env=env)


def test_the_shards_are_those_of_the_folder_under_either_driver(bucket: Bucket, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=3, **{"grün 50%": 2})
    (photos / "cat" / "note.txt").write_text("no image")
    for name, data in files(photos).items():
        bucket.put(name, data)

    ended = build(photos, tmp_path / "here", "--num_shards", "2")
    assert ended.code == 0, ended.err
    here = files(tmp_path / "here")
    for name, driver in builds.DRIVERS.items():
        ended = build(bucket.url, tmp_path / name, "--num_shards", "2", *driver)
        assert ended.code == 0, ended.err
        there = files(tmp_path / name)
        assert here.keys() == there.keys()
        assert [there[name] for name in SHARDS] == [here[name] for name in SHARDS]
        assert comparable(there["manifest.json"]) == comparable(here["manifest.json"])


@pytest.mark.parametrize("kind", ["list", "zip", "tar"])
def test_a_list_and_archives_in_the_bucket_give_the_shards_of_the_folder(
    bucket: Bucket, tmp_path: Path, kind: str
) -> None:
    photos = write_photos(tmp_path / "photos", cat=3, **{"grün 50%": 2})
    if kind == "list":
        for name, data in files(photos).items():
            bucket.put(name, data)
        bucket.put("list.csv", "\n".join(["file", *files(photos), f"{bucket.url}/cat/000.jpg"]).encode())
        given = f"@{bucket.url}/list.csv"
    else:
        path = shutil.make_archive(str(tmp_path / "a"), kind, photos)
        bucket.put(f"a.{kind}", Path(path).read_bytes())
        given = f"{bucket.url}/a.{kind}"

    for source, out in ((str(photos), "here"), (given, "there")):
        ended = build(source, tmp_path / out, "--num_shards", "2")
        assert ended.code == 0, ended.err

    here, there = files(tmp_path / "here"), files(tmp_path / "there")
    assert [there[name] for name in SHARDS] == [here[name] for name in SHARDS]


def test_an_archive_that_changed_after_the_listing_is_noticed(bucket: Bucket, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=1)
    bucket.put("a.zip", Path(shutil.make_archive(str(tmp_path / "a"), "zip", photos)).read_bytes())
    source = open_source(f"{bucket.url}/a.zip")
    (found,) = source.list(b"")
    assert source.read(found.key, found.stat) == (photos / "cat" / "000.jpg").read_bytes()

    (photos / "cat" / "000.jpg").write_bytes((photos / "cat" / "000.jpg").read_bytes()[::-1])
    bucket.put("a.zip", Path(shutil.make_archive(str(tmp_path / "a"), "zip", photos)).read_bytes())

    for reader in (source, open_source(f"{bucket.url}/a.zip")):
        with pytest.raises(ChangedError):
            reader.read(found.key, found.stat)


def test_a_rerun_is_already_built_until_an_object_changes(bucket: Bucket, tmp_path: Path) -> None:
    for name, data in files(write_photos(tmp_path / "photos", cat=2)).items():
        bucket.put(name, data)

    first, second = (build(bucket.url, tmp_path / "out") for _ in range(2))
    bucket.put("cat/000.jpg", (tmp_path / "photos/cat/001.jpg").read_bytes())
    third = build(bucket.url, tmp_path / "out")

    assert (first.code, second.code, third.code) == (0, 0, 5), third.err
    assert "was built from another state of the input" in third.err


def test_an_object_that_changed_after_the_listing_is_noticed(bucket: Bucket) -> None:
    bucket.put("cat/1.jpg", b"old")
    bucket.put("cat/2.jpg", b"gone")
    source = open_source(bucket.url)
    assert source.sections() == [b"cat/"]
    listed = {found.key: found.stat for found in source.list(b"cat/")}
    assert source.read(b"cat/1.jpg", listed[b"cat/1.jpg"]) == b"old"

    bucket.put("cat/1.jpg", b"new")
    obstore.delete(bucket.client, f"{FOLDER}/cat/2.jpg")

    for key, stat in listed.items():
        with pytest.raises(ChangedError, match=r"photos/cat/\d\.jpg is gone or overwritten since the listing$"):
            source.read(key, stat)


def test_an_empty_folder_and_a_missing_bucket_are_named(bucket: Bucket) -> None:
    bucket.put("other.jpg", b"x")
    for url in (f"{bucket.url}/none", bucket.url.replace("bucket-", "none-")):
        with pytest.raises(UnreadableError) as raised:
            open_source(url).check()
        assert "Check the spelling" in str(raised.value)


def test_a_name_that_is_no_path_is_an_error_and_not_left_out(aws: str) -> None:
    make_bucket(aws, name := f"bucket-{uuid.uuid4().hex}")
    connection = http.client.HTTPConnection(aws.removeprefix("http://"))
    key = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
    connection.request("PUT", f"/{name}/cat//1.jpg", b"x", {"Authorization": key})
    assert connection.getresponse().status == 200
    connection.close()

    with pytest.raises(UnreadableError) as raised:
        list(open_source(f"s3://{name}").list(b"cat/"))

    assert str(raised.value) == (
        f"s3://{name}/cat//1.jpg cannot be read: s3:// is read by paths, which hold no empty part, no . or .. and no "
        "control character. Rename the object, or give an --input beside it."
    )


def test_objects_beside_the_folders_are_a_section_of_their_own(bucket: Bucket) -> None:
    for key in ("loose.jpg", "cat/1.jpg", "cat/deep/2.jpg", "dog/3.jpg"):
        bucket.put(key, b"x")
    source = open_source(bucket.url)

    assert source.sections() == [b"", b"cat/", b"dog/"]
    listed = {section: sorted(found.key for found in source.list(section)) for section in source.sections()}
    assert listed == {b"": [b"loose.jpg"], b"cat/": [b"cat/1.jpg", b"cat/deep/2.jpg"], b"dog/": [b"dog/3.jpg"]}


def test_many_objects_side_by_side_are_listed_page_by_page(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_MANY", 3)
    keys = ["1.jpg", "2.jpg", "3.jpg", "cat/4.jpg"]
    for key in keys:
        bucket.put(key, b"x")
    source = open_source(bucket.url)
    monkeypatch.setattr(ObjectStore, "top", None)  # gives all names of a level at once

    sections = source.sections()

    assert [sorted(found.key.decode() for found in source.list(section)) for section in sections] == [keys]
