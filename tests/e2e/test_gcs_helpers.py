"""Helper processes of a build from a bucket: one listing for all, and nothing is lost with one that dies over it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cloud import IN, OUT, Cloud, photo_server, published
from tests.fakes.strict_gcs import StrictGCS
from tests.promises import hooks

FOLDERS = {
    "in/": 2,
    "in/cat/": 3,
    "in/dog/": 3,
}  # the root: a look, its folders; three names a page


@pytest.fixture(scope="module")
def alone(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of a build without helpers."""
    with photo_server(photos) as server:
        Cloud(server.url, tmp_path_factory.mktemp("home")).built(IN, OUT)
        return published(server)


def listings(server: StrictGCS) -> Counter[str]:
    """List requests of the input, by prefix."""
    return Counter(entry.query["prefix"] for entry in server.log if entry.bucket == "photos" and entry.kind == "list")


@pytest.mark.parametrize("helpers", [0, 1, 2])
def test_the_input_is_listed_and_each_image_read_once(
    helpers: int, server: StrictGCS, cloud: Cloud, alone: dict[str, str]
) -> None:
    ended = cloud.built(IN, OUT, hooks=[partial(hooks.helpers, helpers)])
    reads = Counter(entry.name for entry in server.log if entry.bucket == "photos" and entry.kind == "get")
    assert (ended.err, published(server)) == ("", alone)
    assert listings(server) == FOLDERS
    assert set(reads.values()) == {1}


@pytest.mark.parametrize("event", ["listed", "plan"])
def test_a_helper_that_is_killed_while_it_lists_changes_nothing(
    event: str, server: StrictGCS, cloud: Cloud, alone: dict[str, str]
) -> None:
    killed = partial(hooks.at_part_of_helper, 0, kill, event)
    ended = cloud.built(IN, OUT, hooks=[killed, partial(hooks.helpers, 1)])
    assert (ended.err, published(server)) == ("", alone)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_what_a_helper_may_not_list_is_reported_once_by_the_build(server: StrictGCS, cloud: Cloud) -> None:
    def refused(request: object) -> bool:
        return getattr(request, "kind", "") == "list" and getattr(request, "query", {}).get("prefix") == "in/cat/"

    server.inject("status", matches=refused, times=None, status=403)
    ended = cloud.build(IN, OUT, hooks=[partial(hooks.helpers, 1)])
    assert ended.code == 2
    assert ended.err.count("permission storage.objects.list is missing on bucket photos for gs://photos/in/cat/") == 1
    assert published(server) == {}
    assert all(listings(server)[prefix] <= count for prefix, count in FOLDERS.items()), (
        "the graph does not list once more"
    )
