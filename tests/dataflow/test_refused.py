"""What cannot work on Dataflow is refused before a VM is paid for, or where the service does not take the job."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
from apache_beam.utils import retry as beam_retry

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.preflight import check_options
from shardfeed.pipeline.dataflow.remedies import explain_refusal
from shardfeed.storage.gcs_clients import google_client
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.options import BuildOptions
from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End, Refusal

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
    roots = (InputRoot("gs://photos"),)
    check_options(engine, roots=roots, output="gs://data/out", project="my-project", region="us-central1", temp={})


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
        "workers have no shardfeed. run_dataflow.sh gives one of the two; docs/how-to/dataflow.md says which when.\n"
    )


@pytest.mark.parametrize(
    ("flag", "name", "said"),
    [
        ("--setup_file", "absent/setup.py", "The file {path} cannot be found. It was specified in the --setup_file"),
        ("--setup_file", "other.py", "The --setup_file option expects the full path to a file named setup.py or"),
        (
            "--setup_file",
            "setup.py",
            "the command that packs --setup_file ended with exit code 1; its own message is above.",
        ),
        (
            "--requirements_file",
            "absent.txt",
            "The file {path} cannot be found. It was specified in the --requirements_file",
        ),
        (
            "--extra_package",
            "absent.tar.gz",
            "The file {path} cannot be found. It was specified in the --extra_package",
        ),
    ],
    ids=["no setup.py", "another name", "a setup.py that raises", "no requirements", "no package"],
)
def test_a_package_that_cannot_be_made_is_a_bad_argument(
    cloud: Cloud, tmp_path: Path, flag: str, name: str, said: str
) -> None:
    for file in ("other.py", "setup.py"):
        (tmp_path / file).write_text("raise ValueError('this one')\n")
    before = len(cloud.service.jobs)
    ended = cloud.submit(flag, str(tmp_path / name))
    last = ended.err.splitlines()[-1]
    assert (ended.code, ended.out, len(cloud.service.jobs)) == (2, "", before)
    assert last.startswith("shardfeed: no job was submitted: " + said.format(path=tmp_path / name))
    assert last.endswith(" docs/how-to/dataflow.md has what workers need.")
    assert "Traceback" not in ended.err
    assert "carry on" not in ended.err


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
                {"fingerprint": 32 * "f", "config": BuildOptions(image=ImageOptions(16, 16), seed=5).config()}
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


DISABLED = (
    "Dataflow API has not been used in project my-project before or it is disabled. Enable it by visiting "
    "https://console.developers.google.com/apis/api/dataflow.googleapis.com/overview?project=my-project then retry."
)


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            Refusal(403, "PERMISSION_DENIED", DISABLED),
            "gcloud services enable dataflow.googleapis.com compute.googleapis.com storage.googleapis.com --project=my-project",
        ),
        (
            Refusal(
                403, "PERMISSION_DENIED", "(4f1): Could not create workflow; user does not have write access to project"
            ),
            "--member=user:YOU --role=roles/dataflow.developer",
        ),
        (
            Refusal(
                403,
                "PERMISSION_DENIED",
                "Current user cannot act as service account w@p.iam.gserviceaccount.com: actAs",
            ),
            "roles/iam.serviceAccountUser",
        ),
        (
            Refusal(404, "NOT_FOUND", "(8a2): Requested project my-project was not found"),
            "Is --project my-project right? It is the project's id, not its title: gcloud projects list",
        ),
        (
            Refusal(400, "INVALID_ARGUMENT", "(3c9): The regional endpoint us-central1 is not a known region"),
            "Is --region us-central1 right? Regions: gcloud compute regions list --project=my-project",
        ),
        (
            Refusal(401, "UNAUTHENTICATED", "Request had invalid authentication credentials"),
            "gcloud auth application-default login",
        ),
    ],
    ids=["API off", "no permission", "no service account", "no project", "no region", "not logged in"],
)
def test_a_refusal_names_the_remedy(refusal: Refusal, said: str) -> None:
    text = explain_refusal(f"{refusal.code} {refusal.message}", project="my-project", region="us-central1")
    first, last = text.splitlines()
    assert first.startswith(f"Dataflow did not take the job: {refusal.code} {refusal.message[:100]}")
    assert said in last


def test_a_job_that_dataflow_does_not_take_is_a_bad_argument(cloud: Cloud) -> None:
    cloud.service.refusal = Refusal(403, "PERMISSION_DENIED", DISABLED)
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out, cloud.objects("data")) == (2, "", {})
    assert ended.err.endswith(
        f"shardfeed: Dataflow did not take the job: 403 {DISABLED}\nAn API is off. Turn them on: gcloud services enable "
        "dataflow.googleapis.com compute.googleapis.com storage.googleapis.com --project=my-project\n"
    )


def test_a_job_that_dataflow_takes_only_later_is_incomplete(cloud: Cloud) -> None:
    cloud.service.refusal = Refusal(429, "RESOURCE_EXHAUSTED", "(4a1): The project has 25 running jobs in us-central1")
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.endswith(
        "shardfeed: Dataflow did not take the job: 429 (4a1): The project has 25 running jobs in us-central1\nWait until other "
        "jobs have ended, or ask for more quota, and rerun the same command.\n"
    )


JOINED = (
    "An active job has this name: an earlier run's, this one's if an answer was lost, or somebody else's (gcloud dataflow jobs "
    "list). Rerun without --job_name (a build then has a name that no other has), or with another: where that job "
    "builds the same dataset, yours joins it."
)


def test_a_name_that_an_active_job_has_is_a_bad_argument_and_names_that_job(cloud: Cloud) -> None:
    over = threading.Event()
    cloud.service.execute = lambda _job: End() if over.wait(60) else End("JOB_STATE_FAILED")
    named = (*IMAGE, "--no_wait_until_finish", "--job_name", "mine")
    first, ended = cloud.submit(*named), cloud.submit(*named)
    over.set()
    job = cloud.service.jobs[-1]["id"]
    assert (first.code, ended.code, ended.out) == (0, 2, "")
    assert ended.err.endswith(
        f"shardfeed: Dataflow did not take the job: 409 There is already active job named mine with id: {job}. If you want to "
        f"submit a second job, try again by setting a different name using --job_name.\n{JOINED}\n"
    )


TAKEN = "(4a1): The workflow could not be created. Causes: (5b): There is already an active job named mine."


def test_a_conflict_over_a_given_name_is_a_bad_argument(cloud: Cloud) -> None:
    cloud.service.refusal = Refusal(409, "ALREADY_EXISTS", TAKEN)
    ended = cloud.submit(*IMAGE, "--job_name", "mine")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f"shardfeed: Dataflow did not take the job: 409 {TAKEN}\n{JOINED}\n")


def test_a_conflict_over_a_name_that_no_other_job_has_is_our_own_lost_request(cloud: Cloud) -> None:
    cloud.service.refusal = Refusal(409, "ALREADY_EXISTS", TAKEN)
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out) == (4, "")
    assert "shardfeed: Dataflow did not say whether it took job shardfeed-data-out-" in ended.err
    assert ended.err.endswith("rerun the same command to join it.\n")


@pytest.mark.parametrize("code", [408, 500, 503, 504, None])
def test_a_job_that_may_have_been_taken_is_incomplete_and_can_be_joined(
    code: int | None, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang_up() -> None:
        raise ConnectionAbortedError

    monkeypatch.setattr(beam_retry.Clock, "sleep", lambda *_: None)
    if code is None:
        cloud.service.taking = hang_up
    else:
        cloud.service.refusal = Refusal(code, "UNAVAILABLE", "try again")
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out) == (4, "")
    said, told = ended.err.splitlines()[-2:]
    what = "no answer .*" if code is None else f"{code} try again"
    assert re.fullmatch(rf"shardfeed: Dataflow did not say whether it took job shardfeed-data-out-\S+: {what}", said)
    assert told == (
        "It may have been taken, and then it goes on. Look with: gcloud dataflow jobs list --project my-project --region "
        "us-central1; rerun the same command to join it."
    )


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
