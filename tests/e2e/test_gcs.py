"""Whole builds from, to and between buckets of a real server: the bytes of a build on one disk."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlparse

import pytest
from google.cloud.storage import Client

from shardfeed.format.naming import MANIFEST
from shardfeed.storage.gcs_clients import google_client
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image
from tests.kit import hooks
from tests.kit.cloud import Cloud, build_args, comparable, digests, note_connections, records, tree
from tests.kit.images import photo
from tests.kit.servers.strict_gcs import StrictGCS

NAMES = [
    "class.labels.txt",
    "classes.txt",
    "dataset_info.json",
    "duplicates.jsonl",
    "features.json",
    "manifest.json",
    "rejects-00000-of-00001.jsonl",
    "run.json",
    *(f"train-0000{shard}-of-00002.{end}" for shard in range(2) for end in ("parquet", "tfrecord", "tfrecord.idx")),
    "train.classes",
    "train.index",
]
# These hold the versions of the input's files, or the fingerprint, which covers them.
OF_VERSIONS = {"manifest.json", "train.classes", "train.index", *(name for name in NAMES if name.endswith(".parquet"))}


@pytest.fixture(scope="module")
def cloud(fake_gcs_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The real fake-gcs-server, which this process takes for Google's too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", fake_gcs_server)
        yield Cloud(fake_gcs_server, tmp_path_factory.mktemp("home"))


@pytest.fixture
def bucket(cloud: Cloud) -> str:
    """A new, empty bucket's address."""
    return new_bucket()


def new_bucket() -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    client().create_bucket(name)
    return f"gs://{name}"


def client() -> Client:
    return google_client()


def put(bucket: str, objects: dict[str, bytes]) -> None:
    for name, data in objects.items():
        client().bucket(bucket[len("gs://") :]).blob(name).upload_from_string(data)


def objects(url: str) -> dict[str, bytes]:
    """Everything below ``gs://bucket/prefix``, by its name there."""
    bucket, _, prefix = url[len("gs://") :].partition("/")
    prefix = prefix and prefix + "/"
    blobs = client().list_blobs(bucket, prefix=prefix)
    return {blob.name[len(prefix) :]: blob.download_as_bytes() for blob in blobs}


@dataclass(frozen=True)
class Ways:
    """The outputs of one folder of photos, on a disk and in buckets; ``url``: of the last one."""

    local: dict[str, bytes]
    out_of_bucket: dict[str, bytes]
    into_bucket: dict[str, bytes]
    between_buckets: dict[str, bytes]
    url: str


@pytest.fixture(scope="module")
def ways(cloud: Cloud, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Ways:
    folder, source, target = tmp_path_factory.mktemp("ways"), new_bucket(), new_bucket()
    put(source, {f"a/photos/{name}": data for name, data in tree(photos).items()})
    flags = ("--num_shards", "2")
    cloud.built(photos, folder / "local", *flags)
    cloud.built(f"{source}/a/photos", folder / "out", *flags)
    cloud.built(photos, f"{target}/into", *flags)
    cloud.built(f"{source}/a/photos/", f"{target}/some/where/", *flags)
    return Ways(
        tree(folder / "local"),
        tree(folder / "out"),
        objects(f"{target}/into"),
        objects(f"{target}/some/where"),
        f"{target}/some/where",
    )


@pytest.mark.parametrize("way", ["out_of_bucket", "into_bucket", "between_buckets"])
def test_a_build_by_way_of_buckets_has_the_bytes_of_a_build_on_one_disk(ways: Ways, way: str) -> None:
    made: dict[str, bytes] = getattr(ways, way)
    assert sorted(made) == sorted(ways.local) == NAMES
    theirs, ours = digests(made), digests(ways.local)
    changed = set() if way == "into_bucket" else OF_VERSIONS
    assert {name for name in ours if theirs[name] != ours[name]} == changed
    assert comparable(made[MANIFEST]) == comparable(ways.local[MANIFEST])
    assert ways.out_of_bucket[MANIFEST] == ways.between_buckets[MANIFEST]


def test_the_same_command_again_finds_the_dataset_built_unless_the_input_has_changed(
    cloud: Cloud, photos: Path, bucket: str
) -> None:
    put(bucket, {f"in/{name}": data for name, data in tree(photos).items()})
    cloud.built(f"{bucket}/in", f"{bucket}/out")
    before = objects(f"{bucket}/out")
    again = cloud.built(f"{bucket}/in", f"{bucket}/out")
    assert again.out.splitlines()[0] == f"Already built: {bucket}/out"
    put(bucket, {"in/cat/new.jpg": photo(77)})
    ended = cloud.build(f"{bucket}/in", f"{bucket}/out")
    assert ended.code == 5
    assert f"{bucket}/out was built from another state of the input:\n  train/cat: 7 images" in ended.err
    assert objects(f"{bucket}/out") == before


def test_what_a_killed_build_left_is_discarded_on_request(cloud: Cloud, photos: Path, bucket: str) -> None:
    out = f"{bucket}/out"
    put(bucket, {"beside/it": b"ours"})
    assert cloud.build(photos, out, "--quality", "50", hooks=[hooks.kill_at_publishing]).code == -9
    left = objects(out)
    assert "_parts/CLAIM" in left
    assert cloud.build(photos, out).code == 5
    assert objects(out) == left
    cloud.built(photos, out, "--discard_incomplete")
    assert [name for name in objects(out) if name.startswith("_parts/")] == []
    assert json.loads(objects(out)[MANIFEST])["config"]["quality"] == 95
    assert objects(f"{bucket}/beside") == {"it": b"ours"}


def test_a_glob_chooses_among_a_bucket_s_objects(cloud: Cloud, bucket: str) -> None:
    put(bucket, {name: photo(1) for name in ("cat/1.jpg", "cat/2.png", "cat/deep/3.jpg", "dog/1.jpg", "top.jpg")})
    out = f"{new_bucket()}/out"
    cloud.built(f"{bucket}/[!d]*/**/?.jpg", out)
    assert sorted(records(objects(out))) == [b"cat/1.jpg", b"cat/deep/3.jpg"]


ODD = [
    "cat/a//b.jpg", "cat/#1.jpg", "cat/what?.jpg", "cat/a?b=c&d.jpg", "cat/100%20.jpg", "cat/100%2F.jpg", "cat/[1].jpg",
    "cat/*.jpg", "cat/two words .jpg", "cat/ .jpg", "cat/x..jpg", "cat/\N{CAT FACE}.jpg", "cat/cafe\u0301.jpg",
    "cat/caf\u00e9.jpg", "cat/tab\there.jpg", "cat/no suffix", "cat/inside.jpg/1.jpg", "cat/a photo that ends in a slash/",
    "c++ & c#?/1.jpg", "100%/1.jpg", "\N{DOG FACE}/1.jpg",
]  # fmt: skip
LEFT_OUT = ["", "cat/", "cat/sub//", "cat/../1.jpg", "cat/./1.jpg", ".hidden/1.jpg"]
OPTIONS = ImageOptions(height=16, width=16)


def test_every_odd_name_is_a_record_with_its_own_pixels_and_markers_and_hidden_names_are_skipped(
    cloud: Cloud, bucket: str
) -> None:
    source, out = f"{bucket}/in put/#1%20", f"{new_bucket()}/out"
    sources = {name: photo(seed) for seed, name in enumerate(ODD)}
    put(bucket, {f"in put/#1%20/{name}": data for name, data in {**sources, **dict.fromkeys(LEFT_OUT, b"")}.items()})
    cloud.built(source, out, "--num_shards", "3")
    made = objects(out)
    found = {key: (features["label"][0], features["image"][0]) for key, features in records(made).items()}
    assert found == {
        name.encode(): (name.split("/")[0].encode(), process_image(data, OPTIONS, with_stats=False).data)
        for name, data in sources.items()
    }
    manifest = json.loads(made[MANIFEST])
    assert manifest["rejected"] == {"by_reason": {}, "total": 0}
    assert manifest["skipped"]["by_reason"] == {"folder_marker": 2, "hidden": 3}  # the root's own marker is none


@pytest.mark.parametrize("command", ["build", "verify", "inspect"])
def test_with_an_emulator_nothing_looks_for_credentials_or_leaves_the_machine(
    cloud: Cloud, ways: Ways, photos: Path, bucket: str, tmp_path: Path, command: str
) -> None:
    put(bucket, {f"in/{name}": data for name, data in tree(photos).items()})
    log = tmp_path / "connections"
    argv = {
        "build": build_args(f"{bucket}/in", f"{bucket}/out"),
        "verify": ("verify", ways.url, "--deep"),
        "inspect": ("inspect", ways.url),
    }[command]
    with StrictGCS() as trap:
        ended = cloud.run(*argv, hooks=[partial(note_connections, log)], env=surrounded_by(trap))
    assert (ended.code, trap.connections, log.read_text() if log.exists() else "") == (0, 0, ""), ended.err


def surrounded_by(trap: StrictGCS) -> dict[str, str]:
    """An environment in which the trap stands for all other machines: metadata servers, proxies."""
    address = urlparse(trap.url).netloc
    return {
        **dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP", "METADATA_HOST", "METADATA_IP"), address),
        **dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"), trap.url),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
    }


def test_without_an_emulator_and_credentials_the_command_that_makes_some_is_named(cloud: Cloud) -> None:
    with StrictGCS() as trap:
        ended = cloud.run("verify", "gs://bucket/out", env={**surrounded_by(trap), "STORAGE_EMULATOR_HOST": ""})
    assert trap.connections > 0
    assert (ended.code, ended.err) == (
        2,
        "shardfeed: gs:// needs Google credentials and none were found. Log in with: gcloud auth application-default login "
        "(or set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file).\n",
    )
