"""What cannot work on Dataflow is refused before a VM is paid for, or where the service does not take the job."""

from __future__ import annotations

import json

import pytest
from apache_beam.utils import retry as beam_retry

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.preflight import check_options
from shardfeed.storage.gcs_clients import google_client
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from tests.dataflow.cloud import Cloud

IMAGE = ("--sdk_container_image", "shardfeed:1")

pytestmark = pytest.mark.usefixtures("as_usual")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--project", "123456"), "--project 123456 is not a project's id"),
        (("--project", "My Project"), "--project My Project is not a project's id"),
        (
            ("--region", "us-central1-a"),
            "--region us-central1-a is not a region. That is a zone; its region is us-central1.",
        ),
        (("--region", "Iowa"), "--region Iowa is not a region. Such as us-central1."),
        (("--worker_region", "europe-west1-b"), "--worker_region europe-west1-b is not a region. That is a zone; its"),
        (("--worker_zone", "Iowa"), "--worker_zone Iowa is not a zone. Such as us-central1-a;"),
        (
            ("--worker_zone", "us-central1-a", "--worker_region", "us-central1"),
            "--worker_region us-central1 and --worker_zone us-central1-a both say where the workers run. Give one of them;",
        ),
        (
            ("--worker_zone", "europe-west1-b"),
            "the workers are in europe-west1 (--worker_zone europe-west1-b); every byte would cross regions",
        ),
        (
            ("--max_num_workers", "-5"),
            "--max_num_workers -5 is not a number of VMs. Give 1 or more, or leave it out.\n",
        ),
        (("--max_num_workers", "0"), "--max_num_workers 0 is not a number of VMs. Give 1 or more, or leave it out.\n"),
        (("--num_workers", "0"), "--num_workers 0 is not a number of VMs."),
        (
            ("--number_of_worker_harness_threads", "0"),
            "--number_of_worker_harness_threads 0 is not a number of bundles at a time. Give 1 or more, or leave it out.\n",
        ),
        (("--disk_size_gb", "-1"), "--disk_size_gb -1 is not a number of GB. Give 1 or more, or leave it out.\n"),
        (
            ("--worker_machine_type=",),
            "--worker_machine_type is empty. Give a type, such as n2-standard-4, or leave it out.\n",
        ),
        (
            ("--num_workers", "50", "--max_num_workers", "10"),
            "--num_workers 50 is more than --max_num_workers 10: VMs at first, and at most. Lower the one or raise the other.\n",
        ),
        (
            ("--streaming",),
            "--streaming: a build is a batch job; as a streaming job it would never end. Leave it out.\n",
        ),
        (
            ("--dry_run", "true"),
            "--dry_run true: nothing would be built. Leave it out; for a forecast: shardfeed plan\n",
        ),
        (
            ("--temp_location", "/tmp"),
            "--temp_location /tmp: Dataflow needs a gs:// folder here, for staged files. Give one in a bucket of the workers' "
            "region, such as --temp_location gs://data/shardfeed-tmp\n",
        ),
        (
            ("--staging_location", "/local/x"),
            "--staging_location /local/x: Dataflow needs a gs:// folder here, for staged files. Give one in a bucket of the "
            "workers' region, such as --staging_location gs://data/shardfeed-tmp\n",
        ),
        (
            ("--temp_location", "gs://absent/tmp"),
            "--temp_location gs://absent/tmp: there is no bucket absent. Make it: gcloud storage buckets create gs://absent "
            "--location=us-central1",
        ),
        (
            ("--staging_location", "gs://absent/tmp"),
            "--staging_location gs://absent/tmp: there is no bucket absent. Make it: gcloud storage buckets create gs://absent "
            "--location=us-central1",
        ),
        (
            ("--template_location", "gs://absent/job"),
            "--template_location gs://absent/job: there is no bucket absent. Make it: gcloud storage buckets create gs://absent "
            "--location=us-central1",
        ),
        (
            ("--template_location", "/tmp/job"),
            "--template_location /tmp/job: Dataflow needs a gs:// file here, for the job. Give one in a bucket of the workers' "
            "region, such as --template_location gs://data/shardfeed-tmp/template\n",
        ),
        (
            ("--temp_location", "gs://data/out/tmp"),
            "--temp_location gs://data/out/tmp lies in --output gs://data/out: the build would find what is staged there, and "
            "take it for somebody else's. Give a folder outside of it, such as --temp_location gs://data/shardfeed-tmp\n",
        ),
        (
            ("--region", "europe-west1"),
            "--input gs://photos/in: bucket photos is in US-CENTRAL1, the workers are in europe-west1; every byte would cross "
            "regions, slowly and for a fee. Run the job there (--region us-central1), use a bucket in europe-west1, or accept it "
            "with --cross_region.",
        ),
    ],
    ids=[
        "a number",
        "a title",
        "a zone",
        "no region",
        "a zone for a region of workers",
        "no zone",
        "two places for workers",
        "far workers",
        "fewer than no workers",
        "no workers",
        "no first workers",
        "no bundles",
        "less than no disk",
        "no machine type",
        "more workers than at most",
        "streaming",
        "a dry run",
        "a local temp",
        "a local staging",
        "no temp bucket",
        "no staging bucket",
        "no template bucket",
        "a local template",
        "temp in the output",
        "far buckets",
    ],
)
def test_an_option_that_cannot_be_right_is_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(beam_retry.Clock, "sleep", lambda *_: None)  # where nothing refuses, Beam stages for minutes
    ended = cloud.submit(*flags, *IMAGE)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert cloud.service.jobs == []


def check_image(image: str) -> None:
    args = ("--project=my-project", "--region=us-central1", "--temp_location=gs://scratch/tmp")
    engine = Engine("DataflowRunner", (*args, f"--sdk_container_image={image}"))
    config = BuildConfig(inputs=("gs://photos",), output="gs://data/out", engine=engine)
    check_options(config, project="my-project", region="us-central1", temp={})


@pytest.mark.parametrize(
    "image",
    [
        "shardfeed:1",
        "us-docker.pkg.dev/my-project/images/shardfeed:RC1",
        "localhost:5000/shardfeed:V1_2.3-x@sha256:0f",
        "gcr.io/example.com/p/i",
    ],
)
def test_an_image_may_have_capitals_in_its_tag(image: str) -> None:
    check_image(image)


@pytest.mark.parametrize("image", ["gcr.io/P/i:1", "gcr.io/p/i:-1", f"gcr.io/p/i:{'x' * 129}", "gcr.io/p/i:R/1"])
def test_an_image_that_cannot_be_is_refused(image: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_image(image)
    assert str(refused.value) == (
        f"--sdk_container_image {image} is not an image's address. Give one such as "
        "us-docker.pkg.dev/my-project/images/shardfeed:0.1.0; only its tag may have capitals."
    )


def test_a_job_whose_workers_could_not_have_the_package_is_refused(cloud: Cloud) -> None:
    ended = cloud.build(*cloud.options)
    assert (ended.code, ended.out, cloud.service.jobs) == (2, "", [])
    assert ended.err.endswith(
        "shardfeed: --runner DataflowRunner needs --setup_file setup.py, from a checkout, or --sdk_container_image: else the "
        "workers have no shardfeed. run_dataflow.sh gives one of the two; docs/dataflow.md says which when.\n"
    )


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "holiday.jpg",
            b"x",
            "--output gs://data/{out} holds files that are not a shardfeed build's: holiday.jpg. Give an",
        ),
        (
            "_parts/CLAIM",
            json.dumps(
                {"fingerprint": "f", "config": BuildOptions(image=ImageOptions(16, 16), seed=5).config()}
            ).encode(),
            "gs://data/{out} is claimed by another build that differs in --seed (there 5, here 0). Use the same options to",
        ),
        (
            "_parts/CLAIM",
            b'{"fingerprint": "discarding", "config": {}}',
            "gs://data/{out} is being discarded by another command, or that command was stopped. Wait for it, or rerun with",
        ),
    ],
    ids=["foreign files", "other options", "a discard"],
)
def test_an_output_that_cannot_be_claimed_is_a_conflict_before_any_job(
    cloud: Cloud, name: str, data: bytes, said: str, request: pytest.FixtureRequest
) -> None:
    out = request.node.callspec.id.replace(" ", "-")
    cloud.put("data", {f"{out}/{name}": data})
    before = len(cloud.service.jobs)
    ended = cloud.submit(*IMAGE, out=f"gs://data/{out}")
    assert (ended.code, ended.out, len(cloud.service.jobs)) == (5, "", before)
    assert f"shardfeed: {said.format(out=out)}" in ended.err
    google_client().bucket("data").blob(f"{out}/{name}").delete()


def test_an_output_that_is_discarded_first_is_no_conflict(cloud: Cloud) -> None:
    cloud.put("data", {"stale/_parts/CLAIM": b'{"fingerprint": "discarding", "config": {}}'})
    ended = cloud.submit(*IMAGE, "--discard_incomplete", "--no_wait_until_finish", out="gs://data/stale")
    assert (ended.code, cloud.objects("data")) == (0, {})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--project", "My Project"), "--project My Project is not a project's id"),
        (("--region", "us-central1-a"), "That is a zone; its region is us-central1."),
        (("--temp_location", "gs://absent/tmp"), "--temp_location gs://absent/tmp: there is no bucket absent."),
        (("--staging_location", "/local/x"), "--staging_location /local/x: Dataflow needs a gs:// folder here"),
        (("--staging_location", "gs://photos/in"), "--staging_location gs://photos/in lies in --input gs://photos/in:"),
        (("--template_location", "gs://absent/job"), "--template_location gs://absent/job: there is no bucket absent."),
        (("--zone", "europe-west1-b"), "the workers are in europe-west1 (--zone europe-west1-b);"),
    ],
)
def test_a_plan_refuses_what_the_job_would(cloud: Cloud, flags: tuple[str, ...], said: str) -> None:
    ended = cloud.plan(*flags)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
