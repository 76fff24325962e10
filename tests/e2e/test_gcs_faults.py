"""Whole builds while the bucket misbehaves: trouble changes no byte, mistakes are named."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed.format.naming import MANIFEST
from tests.e2e.conftest import Undisturbed
from tests.kit.cloud import IN, OUT, Cloud, digests, few_parts, output, published, tree
from tests.kit.servers.gcs_requests import Kind, Request
from tests.kit.servers.strict_gcs import Effect, StrictGCS

PART, SIDECAR = r"train/\d{5}-[0-9a-f]{8}-\d+$", r"train/\d{5}\.json$"


def asks(kind: Kind, pattern: str, bucket: str = "data") -> Callable[[Request], bool]:
    """Requests of a kind for names that match."""
    return lambda request: (request.kind, request.bucket) == (kind, bucket) and bool(re.search(pattern, request.name))


def test_the_dataset_that_others_are_compared_with_is_that_of_a_build_on_one_disk(
    cloud: Cloud, undisturbed: Undisturbed, photos: Path, tmp_path: Path
) -> None:
    cloud.built(photos, tmp_path / "out", hooks=[few_parts])
    local = digests(tree(tmp_path / "out"))
    changed = {name for name in local if undisturbed.digests[name] != local[name]}
    of_versions = {MANIFEST, "train.index", "train.classes", *(name for name in local if name.endswith(".parquet"))}
    assert changed == of_versions  # the versions of the input's files, and the fingerprint that covers them


# What goes by: retried, confirmed, or of no consequence

Trouble = tuple[Callable[[Request], bool], int]  # which requests, and how many of them
TROUBLE: dict[Effect, dict[str, Trouble]] = {
    "status": {
        "listing": (asks("list", "", "photos"), 5),
        "reading": (asks("get", "", "photos"), 8),
        "the claim": (asks("upload", "CLAIM"), 1),
        "looking for parts": (asks("get", SIDECAR), 4),
        "parts": (asks("upload", PART), 3),
        "sidecars": (asks("upload", SIDECAR), 3),
        "composing": (asks("compose", ""), 2),
        "deleting": (asks("delete", ""), 3),
    },
    "lost_answer": {
        "the claim": (asks("upload", "CLAIM"), 1),
        "parts": (asks("upload", PART), 3),
        "sidecars": (asks("upload", SIDECAR), 3),
        "a compose": (asks("compose", ""), 1),
        "a shard's description": (asks("stat", r"tfrecord$"), 2),
        "an index": (asks("upload", r"\.idx$"), 1),
        "the rejects": (asks("upload", r"rejects-"), 1),
        "the classes": (asks("upload", r"classes\.txt$"), 1),
        "the manifest": (asks("upload", r"manifest\.json$"), 1),
        "run.json": (asks("upload", r"run\.json$"), 1),
        "a deletion": (asks("delete", ""), 3),
    },
    "drop": {
        "a page of the listing": (asks("list", "", "photos"), 3),
        "an image": (asks("get", "", "photos"), 2),
        "the published manifest": (asks("get", r"manifest\.json$"), 1),
    },
    "short": {"an image": (asks("get", "", "photos"), 2)},
    "corrupt": {"an image": (asks("get", "", "photos"), 2)},
}


@pytest.mark.parametrize("effect", TROUBLE)
def test_trouble_on_the_way_changes_no_byte(
    server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed, effect: Effect
) -> None:
    faults = {
        what: server.inject(effect, matches=matches, times=times) for what, (matches, times) in TROUBLE[effect].items()
    }
    ended = cloud.built(IN, OUT, hooks=[few_parts])
    assert {what: fault.times for what, fault in faults.items() if fault.times} == {}
    assert (ended.err, published(server)) == ("", undisturbed.digests)


def test_a_build_comes_through_a_storm_of_429(server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed) -> None:
    seen: Counter[tuple[str, ...]] = Counter()

    def refused(request: Request) -> bool:
        what = (request.kind, request.bucket, request.name, *map(str, request.query.items()))
        seen[what] += 1
        return seen[what] <= 3

    server.inject("status", matches=refused, times=None, status=429)
    cloud.built(IN, OUT, hooks=[few_parts])
    assert published(server) == undisturbed.digests
    assert min(seen.values()) == 4


# What is one image's fault


def rejects(server: StrictGCS) -> dict[str, tuple[str, str]]:
    """Reason and detail by key."""
    lines = output(server)["rejects-00000-of-00001.jsonl"].decode().splitlines()
    return {line["key"]: (line["reason"], line["detail"]) for line in map(json.loads, lines)}


def test_images_that_change_after_the_listing_or_never_arrive_as_listed_are_rejects(
    server: StrictGCS, cloud: Cloud
) -> None:
    changing, another = "in/cat/003.jpg", server.objects.buckets["photos"]["in/dog/000.jpg"].data
    server.inject("call", "get", changing, action=lambda: server.objects.put("photos", changing, another))
    server.inject("corrupt", "get", "in/dog/001.jpg", times=None)
    ended = cloud.built(IN, OUT)
    assert "14 listed = 10 written + 3 rejected (CHANGED 1, CHECKSUM 1, EMPTY 1) + 1 skipped" in ended.out
    found = rejects(server)
    gone = "gs://photos/in/cat/003.jpg is gone or overwritten since the listing"
    assert found["cat/003.jpg"] == ("CHANGED", gone)
    reason, detail = found["dog/001.jpg"]
    assert (reason, detail.startswith("dog/001.jpg: read ")) == ("CHECKSUM", True)


# What is the user's to repair

DENIED: dict[str, tuple[Callable[[Request], bool], str]] = {
    "listing the input": (asks("list", "", "photos"), "list is missing on bucket photos for gs://photos/in/"),
    "reading an image": (
        asks("get", "cat/003", "photos"),
        "get is missing on bucket photos for gs://photos/in/cat/003.jpg",
    ),
    "looking for a manifest": (asks("stat", ""), f"get is missing on bucket data for {OUT}/manifest.json"),
    "creating parts": (asks("upload", PART), f"create is missing on bucket data for {OUT}/_parts/"),
    "creating the manifest": (asks("upload", "manifest"), f"create is missing on bucket data for {OUT}/manifest.json"),
}


@pytest.mark.parametrize("what", DENIED)
def test_a_missing_permission_is_named(server: StrictGCS, cloud: Cloud, what: str) -> None:
    matches, message = DENIED[what]
    server.inject("status", matches=matches, status=403, times=None)
    ended = cloud.build(IN, OUT, hooks=[few_parts])
    assert (ended.code, ended.err.startswith(f"shardfeed: permission storage.objects.{message}")) == (2, True), (
        ended.err
    )
    assert "--member=ACCOUNT --role=roles/storage.object" in ended.err
    assert ("Traceback" in ended.err, MANIFEST in output(server)) == (False, False)


def test_without_permission_to_delete_the_dataset_is_complete_and_one_warning_says_what_is_left(
    server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed
) -> None:
    server.inject("status", "delete", status=403, times=None)
    ended = cloud.built(IN, OUT, hooks=[few_parts])
    assert {n: d for n, d in published(server).items() if not n.startswith("_parts/")} == undisturbed.digests
    assert "permission storage.objects.delete is missing on bucket data" in ended.err
    assert len(ended.err.splitlines()) <= 3, ended.err


# What somebody else wrote


@pytest.mark.parametrize(("kind", "name"), [("compose", "train-00000-of-00001.tfrecord"), ("upload", "classes.txt")])
def test_an_object_of_somebody_else_s_that_appears_under_our_name_is_a_conflict(
    server: StrictGCS, cloud: Cloud, kind: Kind, name: str
) -> None:
    def appear() -> None:
        server.objects.put("data", f"out/{name}", b"theirs")

    server.inject("call", matches=asks(kind, f"{name}$"), action=appear)
    ended = cloud.build(IN, OUT)
    assert (ended.code, f"{OUT}/{name}" in ended.err) == (5, True), ended.err
    assert (output(server)[name], MANIFEST in output(server)) == (b"theirs", False)


# What lasts


@pytest.mark.parametrize(
    ("matches", "status", "code", "said"),
    [
        (asks("get", "cat/003", "photos"), 503, 4, "10 times. Run the same command again later."),
        (asks("upload", SIDECAR), 503, 4, "10 times. Run the same command again later."),
        (asks("compose", ""), 403, 2, "permission storage.objects.create is missing"),
    ],
    ids=["reading an image", "writing a sidecar", "a permission to compose"],
)
def test_when_trouble_that_lasted_is_over_the_same_command_carries_on(
    server: StrictGCS,
    cloud: Cloud,
    undisturbed: Undisturbed,
    matches: Callable[[Request], bool],
    status: int,
    code: int,
    said: str,
) -> None:
    fault = server.inject("status", matches=matches, times=None, status=status)
    ended = cloud.build(IN, OUT, hooks=[few_parts])
    assert (ended.code, said in ended.err, "Traceback" in ended.err) == (code, True, False), ended.err
    fault.times = 0
    cloud.built(IN, OUT, hooks=[few_parts])
    assert published(server) == undisturbed.digests
