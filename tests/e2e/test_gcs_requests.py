"""How many requests a build between buckets makes: they cost money, and most of its time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from shardfeed.format.naming import MANIFEST
from shardfeed.transforms.run.concurrent_requests import REQUESTS
from tests.kit import hooks
from tests.kit.cloud import IN, OUT, Cloud, one_part, output
from tests.kit.images import photo
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS

IMAGES, SHARDS, PARTS, THREADS = 400, 2, 40, 4


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Request], int]:
    """Every request of a build of 400 tiny images, and how many connections they came on."""
    with StrictGCS() as server:
        data = [photo(seed, size=(8, 8)) for seed in range(8)]
        for number in range(IMAGES):
            server.objects.put("photos", f"{'cat' if number % 2 else 'dog'}/{number:03d}.jpg", data[number % 8])
        server.objects.buckets["data"] = {}
        cloud = Cloud(server.url, tmp_path_factory.mktemp("home"))
        few_parts = partial(hooks.parts_a_shard, PARTS // SHARDS)
        cloud.built("gs://photos", OUT, "--num_shards", str(SHARDS), "--threads", str(THREADS), hooks=[few_parts])
        return server.log, server.connections


def counted(log: list[Request], keep: Callable[[Request], bool]) -> Counter[str]:
    return Counter(request.kind for request in log if keep(request))


def test_reading_costs_one_request_an_image(log: tuple[list[Request], int]) -> None:
    reads = counted(log[0], lambda request: request.bucket == "photos" and request.kind != "list")
    assert set(reads) == {"get"}
    assert reads["get"] <= 1.05 * IMAGES, f"{reads['get'] / IMAGES:.3f} requests an image"


def test_listing_costs_a_page_a_folder_and_two_for_the_root(log: tuple[list[Request], int]) -> None:
    lists = [request.query["prefix"] for request in log[0] if request.bucket == "photos" and request.kind == "list"]
    assert Counter(lists) == {"": 2, "cat/": 1, "dog/": 1}


@pytest.mark.parametrize(
    ("names", "cost"),
    [
        # A look for the part; its sidecar for the fingerprints, for the keys of duplicates, for the rows.
        ("/_parts/.*/train/", {"upload": 2 * PARTS, "get": 4 * PARTS, "delete": 2 * PARTS}),
        # Index, table, two pieces of the split's index, which go again.
        (
            r"-of-\d{5}\.(tfrecord|parquet)",
            {"compose": SHARDS, "upload": 4 * SHARDS, "stat": 2 * SHARDS, "delete": 2 * SHARDS},
        ),
        # A header each.
        (r"train\.(index|classes)", {"compose": 2, "upload": 2, "stat": 6, "delete": 2}),
    ],
    ids=["parts", "shards", "the two files of the split's index"],
)
def test_what_is_written_costs(names: str, cost: dict[str, int], log: tuple[list[Request], int]) -> None:
    assert counted(log[0], lambda request: bool(re.search(names, request.name))) == cost


def test_a_part_with_a_reject_costs_a_further_read_for_the_rejects_file(server: StrictGCS, cloud: Cloud) -> None:
    server.objects.put("photos", "in/cat/broken.jpg", b"no image")
    cloud.built(IN, OUT, "--num_shards", "1", hooks=[one_part])
    asked = counted(server.log, lambda request: "/_parts/" in request.name and "/train/" in request.name)
    assert asked == {"upload": 2, "get": 4, "delete": 2}  # without duplicates no keys are asked for


def test_the_rest_of_a_build_costs_no_more_for_more_images(log: tuple[list[Request], int]) -> None:
    def rest(request: Request) -> bool:
        name = request.name
        return request.bucket == "data" and not re.search(r"-of-\d{5}|train\.(index|classes)|/train/", name)

    # The claim, four side files, the duplicates and their groups, manifest and run.json; the output is
    # listed four times, once for its manifest alone; the groups are read for the tables; the claim is
    # read before the manifest is published, which is read back, as run.json is; claim, groups and outcome go.
    assert counted(log[0], rest) == {"upload": 9, "list": 4, "stat": 2, "get": 4, "delete": 3}


def test_connections_are_kept(log: tuple[list[Request], int]) -> None:
    # Readers, the sidecars of both shards at once, and deletions, which have a client of their own.
    assert log[1] <= THREADS + SHARDS * REQUESTS + REQUESTS, f"{log[1]} connections for {len(log[0])} requests"


def test_every_write_is_create_only(log: tuple[list[Request], int]) -> None:
    writes = [request for request in log[0] if request.kind in ("upload", "resume", "compose")]
    conditions = Counter(request.query.get("ifGenerationMatch") for request in writes)
    assert conditions == {"0": 2 * PARTS + 5 * SHARDS + 4 + 9}


def test_every_image_is_read_in_the_version_that_was_listed(log: tuple[list[Request], int]) -> None:
    reads = [request for request in log[0] if request.bucket == "photos" and request.kind == "get"]
    assert len({request.query["generation"] for request in reads}) == IMAGES


def test_a_large_part_is_uploaded_in_pieces_and_create_only_too(server: StrictGCS, cloud: Cloud) -> None:
    large = "--image_format raw --image_size 640 --num_shards 1"  # 12 MB; Google's client sends 8 MiB at once
    cloud.built(IN, OUT, *large.split(), hooks=[one_part])
    pieces = [request for request in server.log if request.kind == "resume"]
    starts = [request for request in server.log if request.query.get("uploadType") == "resumable" and request.name]
    assert [request.query["ifGenerationMatch"] for request in starts] == ["0"]
    assert sum(len(request.body) for request in pieces) > 12_000_000


def test_with_processes_beside_it_a_build_lists_once_and_reads_each_image_once(server: StrictGCS, cloud: Cloud) -> None:
    ended = cloud.built(IN, OUT, "--threads", "3", hooks=[partial(hooks.processes, 2)])
    of_input = [request for request in server.log if request.bucket == "photos"]
    lists = Counter(request.query["prefix"] for request in of_input if request.kind == "list")
    reads = Counter(request.name for request in of_input if request.kind == "get")
    assert (ended.err, MANIFEST in output(server)) == ("", True)
    assert lists == {"in/": 2, "in/cat/": 3, "in/dog/": 3}  # the root: a look, its folders; three names a page
    assert set(reads.values()) == {1}
