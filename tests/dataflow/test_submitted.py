"""What the real DataflowRunner submits: the job and the staged files."""

from __future__ import annotations

import io
import os
import re
import tarfile
from importlib.metadata import version

import pytest

from tests.dataflow.cloud import Cloud, Ended
from tests.dataflow.execution import staged
from tests.dataflow.service import PROJECT, REGION, Job
from tests.kit import sources


def pool(job: Job) -> Job:
    (only,) = job["environment"]["workerPools"]
    found: Job = only
    return found


@pytest.fixture(scope="module")
def submitted(cloud: Cloud) -> tuple[Ended, Job]:
    """A build with nothing but what is needed, begun in the setup file's folder; and the job that it became."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cloud.tree)
        ended = cloud.submit("--setup_file", "setup.py", "--no_wait_until_finish")
    return ended, cloud.service.jobs[-1]


@pytest.fixture(scope="module")
def job(submitted: tuple[Ended, Job]) -> Job:
    return submitted[1]


def test_a_job_that_is_not_waited_for_is_reported_as_submitted_with_its_link(submitted: tuple[Ended, Job]) -> None:
    ended, job = submitted
    link = f"https://console.cloud.google.com/dataflow/jobs/{REGION}/{job['id']}?project={PROJECT}"
    assert (ended.code, ended.out) == (
        0,
        f"Submitted, not waited for: job {job['id']}\n  {link}\nThe dataset is there when gs://data/out/manifest.json is; to see "
        "whether it is, rerun the same command.\n",
    )


def test_the_launchers_own_account_submits(cloud: Cloud, job: Job) -> None:
    assert cloud.service.authorizations == {"Bearer token"}


def test_the_graph_and_the_source_package_are_staged_and_nothing_else(job: Job) -> None:
    assert sorted(staged(job)) == ["pipeline.pb", "workflow.tar.gz"]


def test_the_staged_package_asks_for_the_launchers_codecs(cloud: Cloud, job: Job) -> None:
    with tarfile.open(fileobj=io.BytesIO(staged(job)["workflow.tar.gz"])) as archive:
        files = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        sent = {name: file.read().decode() for name, file in files.items() if file is not None}
    own = (cloud.tree / "pyproject.toml").read_text()
    pairs = zip(own.splitlines(), sent["pyproject.toml"].splitlines(), strict=True)
    pins = [f"{name}=={version(name)}" for name in ("pillow", "pi-heif", "simplejpeg", "cykooz-resizer")]
    assert [(before.split('"')[1], after.split('"')[1]) for before, after in pairs if before != after] == [
        ("Pillow>=12.1.1,<13", pins[0]),
        ("pi-heif>=1.4,<2", pins[1]),
        ("simplejpeg>=1.8,<2", pins[2]),
        ("cykooz-resizer>=4,<5", pins[3]),
    ]
    asked = re.findall(r"^Requires-Dist: ((?i:pillow|pi-heif|simplejpeg|cykooz).*)$", sent["PKG-INFO"], re.MULTILINE)
    assert asked == pins
    assert own == (sources.ROOT / "pyproject.toml").read_text()
    assert "SHARDFEED_PINS" not in os.environ


def test_the_launchers_main_session_is_not_sent(job: Job) -> None:
    assert job["environment"]["sdkPipelineOptions"]["options"]["save_main_session"] is False


def test_the_job_is_named_after_the_dataset_and_labelled(job: Job) -> None:
    assert re.fullmatch(r"shardfeed-data-out-\d{8}t\d{6}-[0-9a-f]{8}", job["name"])
    assert list(job["labels"]) == ["shardfeed"]


def test_workers_are_chosen_where_the_user_chose_none(job: Job) -> None:
    workers = pool(job)
    assert (workers["machineType"], workers["numThreadsPerWorker"]) == ("n2-standard-4", 4)
    assert "numWorkers" not in workers and "maxNumWorkers" not in workers["autoscalingSettings"]


def test_each_vcpu_has_a_process_of_its_own(job: Job) -> None:
    (image,) = pool(job)["sdkHarnessContainerImages"]
    assert image["useSingleCorePerContainer"] is True
    assert "use_multiple_sdk_containers" in job["environment"]["experiments"]


CHOICES = (
    "--sdk_container_image us-docker.pkg.dev/p/images/shardfeed:1 --labels team=vision --job_name mine "
    "--worker_machine_type n1-highmem-8 --max_num_workers 40 --number_of_worker_harness_threads 3 "
    "--service_account_email w@p.iam --subnetwork regions/us-central1/subnetworks/a"
)


def test_the_users_own_choices_arrive(cloud: Cloud) -> None:
    ended = cloud.submit("--no_wait_until_finish", *CHOICES.split())
    assert ended.code == 0, ended.err
    job = cloud.service.jobs[-1]
    workers, environment = pool(job), job["environment"]
    assert (job["name"], job["labels"]["team"]) == ("mine", "vision")
    assert workers["workerHarnessContainerImage"] == "us-docker.pkg.dev/p/images/shardfeed:1"
    assert (workers["machineType"], workers["numThreadsPerWorker"]) == ("n1-highmem-8", 3)
    assert (workers["numWorkers"], workers["autoscalingSettings"]["maxNumWorkers"]) == (6, 40)
    assert environment["serviceAccountEmail"] == "w@p.iam"
    assert workers["subnetwork"] == "regions/us-central1/subnetworks/a"
    assert sorted(staged(job)) == ["pipeline.pb"]  # an image needs no package
