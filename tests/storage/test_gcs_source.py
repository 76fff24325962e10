"""``gs://`` as an input: opaque names, one request per image, only the listed generation."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor

import pytest

from shardfeed import storage
from shardfeed.format.checksums import crc32c
from shardfeed.storage import Stat
from shardfeed.storage.gcs_clients import google_client
from shardfeed.transforms import stores
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.sources.base import ChangedError, ChecksumError, Listed
from tests.kit.servers.gcs_objects import Object
from tests.kit.servers.strict_gcs import StrictGCS, Transcoding
from tests.storage.listings import listing

NAMES = [
    "cat/a.jpg", "/lead", "//", "a//b.jpg", "a/../b.jpg", "../x", "./x", "a/.", "a/./x", "p/x#1", "x?y=1&z", "x%20y",
    "x%2Fy", "%", " lead", "trail ", "[1].jpg", "{a,b}*", "café", "cafe\u0301", "😀", "a\tb", "a\x7f", "\\\"'", "+a",
    "x.jpg/inside", "~^|`<>:;@$!", "\u202ertl", "n" * 1000, "deep/" * 150 + "x",
]  # fmt: skip
BY_CLIENT = pytest.mark.parametrize("name", ["a.jpg", "a//b.jpg"], ids=["obstore", "google"])


@pytest.fixture(params=["fake-gcs-server", "strict gcs"])
def bucket(request: pytest.FixtureRequest) -> str:
    if request.param == "fake-gcs-server":
        return str(request.getfixturevalue("gcs_bucket"))
    request.getfixturevalue("strict_gcs")
    return "gs://bucket"


@pytest.mark.parametrize("root", ["", "o#d?d r%20t//é"])
def test_any_name_is_listed_and_read_byte_for_byte(bucket: str, root: str) -> None:
    contents = {name: name.encode() for name in NAMES if len(root) + len(name.encode()) < 1000 or root == ""}
    for name, data in contents.items():
        target = google_client().bucket(bucket[len("gs://") :]).blob(f"{root}/{name}" if root else name)
        target.upload_from_string(data, if_generation_match=0)
    source = open_source(f"{bucket}/{root}" if root else bucket)
    read = {key: source.read(key, entry.stat) for key, entry in listing(source).items()}
    assert read == {name.encode(): data for name, data in contents.items()}


def test_size_generation_and_crc_come_with_the_listing(strict_gcs: StrictGCS) -> None:
    made = strict_gcs.objects.put("bucket", "in/cat/a.jpg", b"pixels")
    source = open_source("gs://bucket/in/")
    assert listing(source) == {b"cat/a.jpg": Listed(b"cat/a.jpg", Stat(6, made.generation, crc32c(b"pixels")))}


def test_first_level_folders_are_sections_and_pages_are_followed(strict_gcs: StrictGCS) -> None:
    strict_gcs.page_size = 3
    names = [f"in/{folder}/{n}.jpg" for folder in ("cat", "dog", "eel", "fox", "gnu") for n in range(7)]
    names += [f"in/{n}.txt" for n in range(4)]
    for name in [*names, "in-other/cat/x.jpg", "in"]:
        strict_gcs.objects.put("bucket", name, b"x")
    source = open_source("gs://bucket/in")
    assert source.sections() == [b"", b"cat/", b"dog/", b"eel/", b"fox/", b"gnu/"]
    assert sorted(listing(source)) == sorted(name[len("in/") :].encode() for name in names)


def test_empty_objects_that_end_in_a_slash_are_folder_markers(strict_gcs: StrictGCS) -> None:
    for name, data in {"in/": b"", "in/cat/": b"", "in/cat/full/": b"image", "in/cat/empty.jpg": b""}.items():
        strict_gcs.objects.put("bucket", name, data)
    found = listing(open_source("gs://bucket/in"))
    assert {key: entry.kind for key, entry in found.items()} == {
        b"cat/": "folder_marker",
        b"cat/full/": "file",
        b"cat/empty.jpg": "file",
    }


def test_reading_costs_one_request_an_image_and_few_connections(strict_gcs: StrictGCS) -> None:
    for n in range(100):
        strict_gcs.objects.put("bucket", f"in/cat/{n:03d}.jpg", b"%d" % n * 100)
    source = open_source("gs://bucket/in")
    entries = list(source.list(b"cat/"))
    strict_gcs.log.clear()
    with ThreadPoolExecutor(8) as threads:
        read = list(threads.map(lambda entry: source.read(entry.key, entry.stat), entries))
    assert read == [b"%d" % n * 100 for n in range(100)]
    assert strict_gcs.counts() == {"get": 100}
    assert strict_gcs.connections <= 40  # about one a thread; a pool that is raced for opens a few more


@BY_CLIENT
def test_an_object_overwritten_or_deleted_since_the_listing_is_changed(strict_gcs: StrictGCS, name: str) -> None:
    strict_gcs.objects.put("bucket", f"in/{name}", b"listed")
    source = open_source("gs://bucket/in")
    stat = listing(source)[name.encode()].stat
    strict_gcs.objects.put("bucket", f"in/{name}", b"LISTED")
    with pytest.raises(ChangedError, match=name):
        source.read(name.encode(), stat)
    del strict_gcs.objects.buckets["bucket"][f"in/{name}"]
    with pytest.raises(ChangedError, match=name):
        source.read(name.encode(), stat)


def test_a_listing_without_a_checksum_is_read_by_size(strict_gcs: StrictGCS) -> None:
    strict_gcs.objects.put("bucket", "in/a.jpg", b"pixels")
    source = open_source("gs://bucket/in")
    (entry,) = source.list(b"")
    assert source.read(entry.key, Stat(6, entry.stat.version)) == b"pixels"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "gs://bucket/photos",
            "input gs://bucket/photos has no objects. Check the spelling; list what is there with: gcloud storage ls gs://bucket",
        ),
        (
            "gs://buckett/photos",
            "bucket buckett does not exist (gs://buckett/photos/). Check the spelling, or create it: gcloud storage buckets "
            "create gs://buckett",
        ),
    ],
    ids=["no objects", "no bucket"],
)
def test_an_input_that_is_not_there_is_an_error_with_a_remedy(strict_gcs: StrictGCS, url: str, said: str) -> None:
    with pytest.raises(storage.UnreadableError) as raised:
        open_source(url).sections()
    assert str(raised.value) == said


def test_stored_bytes_that_never_match_the_listing_are_a_checksum_error(
    strict_gcs: StrictGCS, waits: list[float]
) -> None:
    listed = Object(b"pixels", 17, crc32c(b"PIXELS"))
    strict_gcs.objects.buckets["bucket"]["in/a.jpg"] = listed
    source = open_source("gs://bucket/in")
    (entry,) = source.list(b"")
    with pytest.raises(ChecksumError) as raised:
        source.read(entry.key, entry.stat)
    assert str(raised.value) == (
        f"a.jpg: read 6 bytes with crc32c {crc32c(b'pixels'):08x}, 4 times; the listing says 6 bytes, "
        f"crc32c {crc32c(b'PIXELS'):08x}"
    )
    assert (strict_gcs.counts()["get"], len(waits)) == (4, 3)


GZIPPED = gzip.compress(b"pixels" * 1000, mtime=0)


@BY_CLIENT
def test_an_object_with_content_encoding_gzip_is_read_as_it_is_stored(bucket: str, name: str) -> None:
    blob = google_client().bucket(bucket[len("gs://") :]).blob(f"in/{name}")
    blob.content_encoding = "gzip"
    blob.upload_from_string(GZIPPED, if_generation_match=0)
    source = open_source(f"{bucket}/in")
    stat = listing(source)[name.encode()].stat
    assert (stat.size, stat.crc32c) == (len(GZIPPED), crc32c(GZIPPED))
    assert source.read(name.encode(), stat) == GZIPPED


@pytest.mark.parametrize("transcoding", ["as asked", "streamed"])
def test_an_object_with_content_encoding_gzip_in_an_output_is_read_as_it_is_stored(
    strict_gcs: StrictGCS, transcoding: Transcoding, waits: list[float]
) -> None:
    strict_gcs.transcoding = transcoding
    strict_gcs.objects.put("bucket", "out/shard", GZIPPED, "gzip")
    store = stores.open_output("gs://bucket/out")
    assert (store.read("shard"), store.read_range("shard", 3, 7)) == (GZIPPED, GZIPPED[3:10])
    assert store.checksum("shard") == (len(GZIPPED), crc32c(GZIPPED))
    assert waits == []


def read_gzipped(strict_gcs: StrictGCS, name: str, transcoding: Transcoding) -> bytes:
    strict_gcs.transcoding = transcoding
    strict_gcs.objects.put("bucket", f"in/{name}", GZIPPED, "gzip")
    source = open_source("gs://bucket/in")
    return source.read(name.encode(), listing(source)[name.encode()].stat)


@BY_CLIENT
def test_stored_gzip_that_is_sent_without_a_length_is_read_all_the_same(
    strict_gcs: StrictGCS, name: str, waits: list[float]
) -> None:
    assert read_gzipped(strict_gcs, name, "streamed") == GZIPPED
    assert waits == []


@BY_CLIENT
def test_stored_gzip_that_google_insists_on_unpacking_is_a_checksum_error_that_says_so(
    strict_gcs: StrictGCS, name: str, waits: list[float]
) -> None:
    with pytest.raises(ChecksumError) as raised:
        read_gzipped(strict_gcs, name, "always")
    assert str(raised.value) == (
        f"{name}: read 6,000 bytes with crc32c {crc32c(b'pixels' * 1000):08x}, 4 times; the listing says {len(GZIPPED)} bytes, "
        f"crc32c {crc32c(GZIPPED):08x} (stored with Content-Encoding: gzip and unpacked on the way? Upload it again without)"
    )
    assert len(waits) == 3
