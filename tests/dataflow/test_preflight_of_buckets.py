"""Buckets that are refused before a VM is paid for: absent, elsewhere, or without a permission."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.buckets import covers
from shardfeed.pipeline.dataflow.preflight import check_job
from shardfeed.transforms.inputs.roots import parse_inputs
from tests.kit.servers.gcs_objects import Refusal
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS

OBJECTS = ("storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.objects.delete")
ALL = ("storage.buckets.get", *OBJECTS)
CLOUD = ("--project=my-project", "--region=us-central1")
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
    server = Buckets()
    with server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        for name in ("photos", "data", "scratch"):
            server.add(name)
        yield server


def check(*flags: str, cross_region: bool = False) -> None:
    engine = Engine("DataflowRunner", (*CLOUD, "--temp_location=gs://scratch/tmp", *flags))
    roots = parse_inputs(["gs://photos/in"], class_depth=1)
    check_job(engine, roots=roots, output="gs://data/out", cross_region=cross_region)


def refused(*flags: str) -> str:
    with pytest.raises(UsageError) as caught:
        check(*flags)
    return str(caught.value)


def test_the_region_of_a_bucket_is_seen_with_no_role_but_those_of_objects(buckets: Buckets) -> None:
    buckets.add("photos", OBJECTS)
    buckets.add("data", OBJECTS, location="US")
    check()
    buckets.add("data", OBJECTS, location="EUROPE-WEST4")
    assert refused().startswith(
        "--output gs://data/out: bucket data is in EUROPE-WEST4, the workers are in us-central1;"
    )
    assert set(buckets.folders) == {("photos", "in/"), ("data", "out/")}


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


@pytest.mark.parametrize("granted", [ALL, OBJECTS], ids=["described", "listed"])
def test_a_bucket_of_two_regions_is_named_with_both(buckets: Buckets, granted: tuple[str, ...]) -> None:
    parts = {"dataLocations": ["US-EAST4", "US-WEST1"]}
    buckets.add("data", granted, location="US", locationType="dual-region", customPlacementConfig=parts)
    assert refused().startswith(
        "--output gs://data/out: bucket data is in US (US-EAST4, US-WEST1), the workers are in us-central1;"
    )


@pytest.mark.parametrize(
    ("flag", "bucket", "lacking", "role"),
    [
        ("input gs://photos/in", "photos", "storage.objects.list", "roles/storage.objectViewer"),
        ("output gs://data/out", "data", "storage.objects.delete", "roles/storage.objectUser"),
        ("temp_location gs://scratch/tmp", "scratch", "storage.objects.create", "roles/storage.objectUser"),
    ],
    ids=["list", "delete", "stage"],
)
def test_a_missing_permission_is_named_with_the_role_that_has_it(
    buckets: Buckets, flag: str, bucket: str, lacking: str, role: str
) -> None:
    buckets.add(bucket, granted=tuple(name for name in ALL if name != lacking))
    assert refused() == (
        f"--{flag}: you lack {lacking} on bucket {bucket}. Have somebody who may run: gcloud storage buckets "
        f"add-iam-policy-binding gs://{bucket} --member=user:YOU --role={role} (and the same for the workers' service account)."
    )


def test_the_bucket_for_staged_files_must_be_seen_too_for_beam_asks_for_it(buckets: Buckets) -> None:
    buckets.add("scratch", OBJECTS)
    assert refused() == (
        "--temp_location gs://scratch/tmp: you lack storage.buckets.get on bucket scratch. Have somebody who may run: gcloud "
        "storage buckets add-iam-policy-binding gs://scratch --member=user:YOU --role=roles/storage.legacyBucketReader."
    )


def test_a_template_may_lie_in_any_region_and_is_only_created(buckets: Buckets) -> None:
    create = ("storage.buckets.get", "storage.objects.create", "storage.objects.get")
    buckets.add("far", create, location="EUROPE-WEST4")
    check("--template_location=gs://far/job")
    buckets.add("far", create[:1], location="EUROPE-WEST4")
    assert refused("--template_location=gs://far/job").startswith(
        "--template_location gs://far/job: you lack storage.objects.create, storage.objects.get on bucket far."
    )


def test_both_roles_are_named_if_both_lack(buckets: Buckets) -> None:
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
    check(cross_region=True)


def test_a_zone_given_for_a_region_is_told_by_the_buckets(buckets: Buckets) -> None:
    assert "the workers are in us-central1-a; " in refused("--region=us-central1-a")


@pytest.mark.parametrize(
    "flag", ["--worker_region=europe-west1", "--worker_zone=europe-west1-b", "--zone=europe-west1-b"]
)
def test_buckets_are_compared_with_where_the_workers_are_not_the_job(buckets: Buckets, flag: str) -> None:
    name, value = flag.split("=")
    assert refused(flag) == (
        "--input gs://photos/in: bucket photos is in US-CENTRAL1, the workers are in europe-west1 "
        f"({name} {value}); every byte would cross regions, slowly and for a fee. Run the job there (--region us-central1 "
        f"without {name}), use a bucket in europe-west1, or accept it with --cross_region."
    )
    for bucket in ("photos", "data", "scratch"):
        buckets.add(bucket, location="EUROPE-WEST1")
    check(flag)


@pytest.mark.parametrize(
    ("bucket", "flag", "remedy"),
    [
        ("photos", "input gs://photos/in", "Check its spelling: gcloud storage ls"),
        (
            "scratch",
            "temp_location gs://scratch/tmp",
            "Make it: gcloud storage buckets create gs://scratch --location=us-central1",
        ),
    ],
)
def test_an_absent_bucket_is_refused(buckets: Buckets, bucket: str, flag: str, remedy: str) -> None:
    del buckets.objects.buckets[bucket]
    assert refused() == f"--{flag}: there is no bucket {bucket}. {remedy}"


def test_a_bucket_that_refuses_every_request_is_refused_with_googles_words(buckets: Buckets) -> None:
    words = "Bucket is requester pays bucket but no user project provided."
    buckets.inject("status", "bucket", status=400, text=words)
    assert refused() == (
        f"--input gs://photos/in: Google refuses gs://photos/ (400: {words}). "
        "Buckets whose readers pay cannot be used. Have the owner turn that off: gcloud storage buckets update gs://photos "
        "--no-requester-pays, or copy what you need to a bucket of yours: gcloud storage cp --recursive --billing-project=PROJECT"
    )


@pytest.mark.parametrize(
    ("location", "parts", "inside", "outside"),
    [
        ("US-CENTRAL1", (), "us-central1", "us-east1"),
        ("US", (), "us-west4", "europe-west1"),
        ("EU", (), "europe-west1", "europe-west2 europe-west6 us-west1"),
        ("ASIA", (), "asia-south1", "us-west1"),
        ("NAM4", (), "us-central1 us-east1", "us-east4"),
        ("EUR4", (), "europe-north1 europe-west4", "europe-west1"),
        ("EUR5", (), "europe-west1 europe-west2", "europe-west3"),
        ("EUR7", (), "europe-west2 europe-west3", "europe-west1"),
        ("EUR8", (), "europe-west3 europe-west6", "europe-west1"),
        ("ASIA1", (), "asia-northeast1 asia-northeast2", "asia-northeast3"),
        ("US", ("US-EAST4", "US-WEST1"), "us-west1", "us-central1"),
        ("EU", ("EUROPE-WEST2", "EUROPE-WEST3"), "europe-west2", "europe-west1"),
    ],
)
def test_a_region_is_in_its_bucket_or_in_a_wider_place(
    location: str, parts: tuple[str, ...], inside: str, outside: str
) -> None:
    assert {region for region in f"{inside} {outside}".split() if covers(location, parts, region)} == {*inside.split()}
