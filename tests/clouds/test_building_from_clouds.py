"""A build out of s3:// and az:// has the bytes of a build of the same folder on a disk."""

from __future__ import annotations

import http.client
import os
import shutil
from pathlib import Path

import pytest

from shardfeed.storage import UnreadableError
from shardfeed.storage.object_store import ObjectStore
from shardfeed.transforms.sources import object_store, open_source
from shardfeed.transforms.sources.base import ChangedError
from tests.clouds.conftest import Bucket, new_bucket
from tests.kit import builds
from tests.kit.builder import Ended
from tests.kit.cloud import comparable, tree
from tests.kit.commands import write_photos

SHARDS = [f"train-0000{shard}-of-00002.{end}" for shard in range(2) for end in ("tfrecord", "tfrecord.idx")]


def build(source: str | Path, out: Path, *flags: str) -> Ended:
    """A build of tiny images, which finds the clouds where this process does."""
    env = {name: value for name, value in os.environ.items() if name.startswith("A")}
    return builds.run("build", "--input", str(source), "--output", str(out), "--image_size", "16", *flags, env=env)


def built(source: str | Path, out: Path, *flags: str) -> dict[str, bytes]:
    """The files of a build that has to succeed, of two shards."""
    ended = build(source, out, "--num_shards", "2", *flags)
    assert ended.code == 0, ended.err
    return tree(out)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    photos = write_photos(tmp_path_factory.mktemp("clouds") / "photos", cat=3, **{"grün 50%": 2})
    (photos / "cat" / "note.txt").write_text("no image")
    return photos


@pytest.fixture(scope="module")
def here(photos: Path) -> dict[str, bytes]:
    """The dataset of the folder on the disk."""
    return built(photos, photos.parent / "here")


@pytest.mark.parametrize(("bucket", "driver"), [*zip(["s3", "az"], builds.DRIVERS, strict=True)], indirect=["bucket"])
def test_the_dataset_is_that_of_the_folder(
    bucket: Bucket, photos: Path, here: dict[str, bytes], tmp_path: Path, driver: str
) -> None:
    for name, data in tree(photos).items():
        bucket.put(name, data)

    there = built(bucket.url, tmp_path / "there", *builds.DRIVERS[driver])

    assert here.keys() == there.keys()
    assert [there[name] for name in SHARDS] == [here[name] for name in SHARDS]
    assert comparable(there["manifest.json"]) == comparable(here["manifest.json"])


@pytest.mark.parametrize(("bucket", "kind"), [("az", "list"), ("s3", "zip"), ("az", "tar")], indirect=["bucket"])
def test_a_list_and_archives_in_the_bucket_give_the_shards_of_the_folder(
    bucket: Bucket, photos: Path, here: dict[str, bytes], tmp_path: Path, kind: str
) -> None:
    if kind == "list":
        images = {name: data for name, data in tree(photos).items() if name.endswith(".jpg")}
        for name, data in images.items():
            bucket.put(name, data)
        bucket.put("list.csv", "\n".join(["file", *images, f"{bucket.url}/cat/000.jpg"]).encode())
        given = f"@{bucket.url}/list.csv"
    else:
        path = shutil.make_archive(str(tmp_path / "a"), kind, photos)
        bucket.put(f"a.{kind}", Path(path).read_bytes())
        given = f"{bucket.url}/a.{kind}"

    there = built(given, tmp_path / "there")

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
    for name, data in tree(write_photos(tmp_path / "photos", cat=2)).items():
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
    bucket.delete("cat/2.jpg")

    for key, stat in listed.items():
        with pytest.raises(ChangedError, match=r"/cat/\d\.jpg is gone or overwritten since the listing$"):
            source.read(key, stat)


def test_an_empty_folder_and_a_missing_bucket_are_named(bucket: Bucket) -> None:
    bucket.put("other.jpg", b"x")
    for url in (f"{bucket.url}/none", bucket.url.replace("bucket-", "none-")):
        with pytest.raises(UnreadableError) as raised:
            open_source(url).check()
        assert "Check the spelling" in str(raised.value)


def test_a_name_that_is_no_path_is_an_error_and_not_left_out(aws: str) -> None:
    name = new_bucket("s3", aws).name
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
