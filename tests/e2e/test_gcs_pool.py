"""A build from a bucket with processes beside it: one listing, and each image is read once."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.kit import hooks
from tests.kit.cloud import IN, OUT, Cloud, published
from tests.kit.servers.strict_gcs import StrictGCS

FOLDERS = {
    "in/": 2,
    "in/cat/": 3,
    "in/dog/": 3,
}  # the root: a look, its folders; three names a page


@pytest.mark.parametrize("processes", [0, 1, 2])
def test_the_input_is_listed_and_each_image_read_once(processes: int, server: StrictGCS, cloud: Cloud) -> None:
    ended = cloud.built(IN, OUT, "--threads", "3", hooks=[partial(hooks.processes, processes)])
    of_input = [entry for entry in server.log if entry.bucket == "photos"]
    reads = Counter(entry.name for entry in of_input if entry.kind == "get")
    assert ended.err == ""
    assert "manifest.json" in " ".join(published(server))
    assert Counter(entry.query["prefix"] for entry in of_input if entry.kind == "list") == FOLDERS
    assert set(reads.values()) == {1}
