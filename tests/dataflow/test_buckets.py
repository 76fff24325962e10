"""What is known about buckets before a job is submitted: whether they are there, where, and what the launcher may do in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.preflight import STAGED_FLAGS, check_buckets, covers
from shardfeed.transforms.inputs.roots import InputRoot
from tests.kit.servers.gcs_objects import Refusal
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS

OBJECTS = ("storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete")
ALL = ("storage.buckets.get", *OBJECTS)
CLOUD = ("--project=my-project", "--region=us-central1", "--temp_location=gs://scratch/tmp")
Answer = tuple[int, dict[str, str], bytes]


class Buckets(StrictGCS):
    """Buckets with a location, and permissions of the caller."""

    def __init__(self) -> None:
        super().__init__()
        self.described: dict[str, dict[str, object]] = {}
        self.granted: dict[str, tuple[str, ...]] = {}
        self.folders: list[tuple[str, str | None]] = []

    def add(self, name: str, granted: tuple[str, ...] = ALL, **described: object) -> None:
        self.objects.buckets[name] = {}
        self.granted[name] = granted
        self.described[name] = {"name": name, "location": "US-CENTRAL1", **described}

    def _bucket(self, request: Request) -> Answer:
        self.objects.bucket(request.bucket)
        if "storage.buckets.get" not in self.granted[request.bucket]:
            raise Refusal(403, "no storage.buckets.get")
        return _json(self.described[request.bucket])

    def _get(self, request: Request) -> Answer:
        found = re.fullmatch(
            r"storage/v1/b/([^/]+)/(iam/testPermissions|storageLayout)", f"{request.bucket}/{request.name}"
        )
        if found is None:
            return super()._get(request)
        name = found[1]
        self.objects.bucket(name)
        if found[2] != "storageLayout":
            return _json({"permissions": list(self.granted[name])})
        if "storage.objects.list" not in self.granted[name]:
            raise Refusal(403, "no storage.objects.list")
        self.folders.append((name, request.query.get("prefix")))
        told = ("location", "locationType", "customPlacementConfig")
        return _json({key: self.described[name].get(key) for key in told})

    def answer(self, request: Request) -> Answer:
        request.query.pop("permissions", None)
        return super().answer(request)


def _json(value: object) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    with Buckets() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        for name in ("photos", "data", "scratch"):
            server.add(name)
        yield server


def check(*flags: str, anywhere: bool = False, staged: str = "temp_location") -> None:
    check_buckets(
        Engine("DataflowRunner", (*CLOUD, *flags)),
        roots=(InputRoot("gs://photos/in"),),
        output="gs://data/out",
        region="us-central1",
        temp={staged: "gs://scratch/tmp"},
        anywhere=anywhere,
    )


def refused(*flags: str, staged: str = "temp_location") -> str:
    with pytest.raises(UsageError) as caught:
        check(*flags, staged=staged)
    return str(caught.value)


def test_buckets_of_the_region_that_may_be_used_pass(buckets: Buckets) -> None:
    check()


def test_the_region_of_a_bucket_is_seen_with_no_role_but_those_of_objects(buckets: Buckets) -> None:
    buckets.add("photos", OBJECTS)
    buckets.add("data", OBJECTS, location="US")
    check()
    buckets.add("data", OBJECTS, location="EUROPE-WEST4")
    assert refused().startswith(
        "--output gs://data/out: bucket data is in EUROPE-WEST4, the workers are in us-central1;"
    )
    assert set(buckets.folders) == {("photos", "in/"), ("data", "out/")}


def test_the_two_regions_of_a_bucket_are_seen_with_them_too(buckets: Buckets) -> None:
    parts = {"dataLocations": ["US-EAST4", "US-WEST1"]}
    buckets.add("data", hidden=True, location="US", locationType="dual-region", customPlacementConfig=parts)
    assert refused().startswith(
        "--output gs://data/out: bucket data is in US (US-EAST4, US-WEST1), the workers are in us-central1;"
    )


@pytest.mark.parametrize(
    "described",
    [
        {"location": None},
        {"location": "EU", "locationType": "dual-region"},  # of which regions, only storage.buckets.get would tell
    ],
)
def test_a_bucket_of_which_the_region_is_not_told_passes(buckets: Buckets, described: dict[str, object]) -> None:
    buckets.add("photos", OBJECTS, **described)
    check()


def test_a_bucket_that_may_be_neither_described_nor_listed_is_refused_for_that(buckets: Buckets) -> None:
    buckets.add("photos", ("storage.objects.get",))
    assert refused().startswith("--input gs://photos/in: you lack storage.objects.list on bucket photos.")


@pytest.mark.parametrize(
    ("flag", "bucket", "lacking", "role"),
    [
        ("input gs://photos/in", "photos", "storage.objects.list", "roles/storage.objectViewer"),
        ("input gs://photos/in", "photos", "storage.objects.get", "roles/storage.objectViewer"),
        ("output gs://data/out", "data", "storage.objects.create", "roles/storage.objectUser"),
        ("output gs://data/out", "data", "storage.objects.delete", "roles/storage.objectUser"),
        ("temp_location gs://scratch/tmp", "scratch", "storage.objects.create", "roles/storage.objectUser"),
    ],
    ids=["list", "read", "write and compose", "delete", "stage"],
)
def test_a_missing_permission_is_named_with_the_role_that_has_it(
    buckets: Buckets, flag: str, bucket: str, lacking: str, role: str
) -> None:
    buckets.add(bucket, granted=tuple(name for name in ALL if name != lacking))
    assert refused() == (
        f"--{flag}: you lack {lacking} on bucket {bucket}. Have somebody who may run: gcloud storage buckets "
        f"add-iam-policy-binding gs://{bucket} --member=user:YOU --role={role} (and the same for the workers' service account)."
    )


@pytest.mark.parametrize("flag", STAGED_FLAGS)
def test_the_bucket_for_staged_files_must_be_seen_too_for_beam_asks_for_it(buckets: Buckets, flag: str) -> None:
    buckets.add("scratch", OBJECTS)
    assert refused(staged=flag) == (
        f"--{flag} gs://scratch/tmp: you lack storage.buckets.get on bucket scratch. Have somebody who may run: gcloud storage "
        "buckets add-iam-policy-binding gs://scratch --member=user:YOU --role=roles/storage.legacyBucketReader."
    )


def test_both_roles_are_named_where_both_lack(buckets: Buckets) -> None:
    buckets.add("scratch", ("storage.objects.list",))
    add = "gcloud storage buckets add-iam-policy-binding gs://scratch --member=user:YOU --role=roles/storage"
    assert refused().endswith(
        f"on bucket scratch. Have somebody who may run: {add}.legacyBucketReader, and: {add}.objectUser (and the same for the "
        "workers' service account)."
    )


def test_a_bucket_elsewhere_is_refused_with_both_ways_out(buckets: Buckets) -> None:
    buckets.add("data", location="EUROPE-WEST4")
    assert refused() == (
        "--output gs://data/out: bucket data is in EUROPE-WEST4, the workers are in us-central1; every byte would cross regions, "
        "slowly and for a fee. Run the job there (--region europe-west4), use a bucket in us-central1, or accept it with "
        "--cross_region."
    )


def test_a_bucket_of_two_regions_is_named_with_both(buckets: Buckets) -> None:
    parts = {"dataLocations": ["US-EAST4", "US-WEST1"]}
    buckets.add("data", location="US", locationType="dual-region", customPlacementConfig=parts)
    assert refused().startswith(
        "--output gs://data/out: bucket data is in US (US-EAST4, US-WEST1), the workers are in us-central1;"
    )


def test_a_bucket_elsewhere_can_be_accepted(buckets: Buckets) -> None:
    buckets.add("data", location="EUROPE-WEST4")
    check(anywhere=True)


ELSEWHERE = pytest.mark.parametrize(
    "flag", ["--worker_region=europe-west1", "--worker_zone=europe-west1-b", "--zone=europe-west1-b"]
)


@ELSEWHERE
def test_buckets_far_from_the_workers_are_refused_though_the_job_is_near(buckets: Buckets, flag: str) -> None:
    name, value = flag.split("=")
    assert refused(flag) == (
        "--input gs://photos/in: bucket photos is in US-CENTRAL1, the workers are in europe-west1 "
        f"({name} {value}); every byte would cross regions, slowly and for a fee. Run the job there (--region us-central1 "
        f"without {name}), use a bucket in europe-west1, or accept it with --cross_region."
    )


@ELSEWHERE
def test_workers_far_from_the_buckets_can_be_accepted(buckets: Buckets, flag: str) -> None:
    check(flag, anywhere=True)


@ELSEWHERE
def test_buckets_near_the_workers_pass_though_the_job_is_far(buckets: Buckets, flag: str) -> None:
    for name in ("photos", "data", "scratch"):
        buckets.add(name, location="EUROPE-WEST1")
    check(flag)


def test_an_absent_input_bucket_is_refused(buckets: Buckets) -> None:
    del buckets.objects.buckets["photos"]
    assert refused() == "--input gs://photos/in: there is no bucket photos. Check its spelling: gcloud storage ls"


def test_a_bucket_that_refuses_every_request_is_refused_with_googles_words(buckets: Buckets) -> None:
    words = "Bucket is requester pays bucket but no user project provided."
    buckets.inject("status", "bucket", status=400, text=words)
    assert refused() == (
        f"--input gs://photos/in: Google refuses gs://photos/ (400: {words}). "
        "Buckets whose readers pay cannot be used. Have the owner turn that off: gcloud storage buckets update gs://photos "
        "--no-requester-pays, or copy what you need to a bucket of yours: gcloud storage cp --recursive --billing-project=PROJECT"
    )


@pytest.mark.parametrize(
    ("location", "parts", "region", "inside"),
    [
        ("US-CENTRAL1", (), "us-central1", True),
        ("US-CENTRAL1", (), "us-east1", False),
        ("US", (), "us-west4", True),
        ("US", (), "europe-west1", False),
        ("EU", (), "europe-west1", True),
        ("ASIA", (), "asia-south1", True),
        ("NAM4", (), "us-central1", True),
        ("NAM4", (), "us-east1", True),
        ("NAM4", (), "us-east4", False),
        ("EUR4", (), "europe-north1", True),
        ("EUR4", (), "europe-west4", True),
        ("EUR4", (), "europe-west1", False),
        ("ASIA1", (), "asia-northeast1", True),
        ("ASIA1", (), "asia-northeast2", True),
        ("ASIA1", (), "asia-northeast3", False),
        ("ASIA", (), "us-west1", False),
        ("EU", (), "us-west1", False),
        ("US", ("US-EAST4", "US-WEST1"), "us-west1", True),
        ("US", ("US-EAST4", "US-WEST1"), "us-central1", False),
        ("EU", ("EUROPE-WEST2", "EUROPE-WEST3"), "europe-west2", True),
        ("EU", (), "europe-west2", False),
        ("EU", (), "europe-west6", False),
        ("EUR5", (), "europe-west1", True),
        ("EUR5", (), "europe-west2", True),
        ("EUR5", (), "europe-west3", False),
        ("EUR7", (), "europe-west2", True),
        ("EUR7", (), "europe-west3", True),
        ("EUR8", (), "europe-west3", True),
        ("EUR8", (), "europe-west6", True),
    ],
)
def test_a_region_is_in_its_bucket_or_in_a_wider_place(
    location: str, parts: tuple[str, ...], region: str, inside: bool
) -> None:
    assert covers(location, parts, region) is inside
