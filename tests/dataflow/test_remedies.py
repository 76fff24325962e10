"""Texts of Dataflow, most from its documentation and its users' reports, and the remedy for each.

https://docs.cloud.google.com/dataflow/docs/guides/common-errors, troubleshoot-networking and
troubleshoot-permissions.
"""

from __future__ import annotations

import pytest

from shardfeed.errors import IncompleteError, UsageError
from shardfeed.pipeline.dataflow.remedies import explain_failure, explain_refusal

CARRY_ON = "What is finished is kept: rerun the same command to carry on."
REFUSED = {
    "login": "Log in: gcloud auth application-default login",
    "APIs": "An API is off. Turn them on: gcloud services enable dataflow.googleapis.com compute.googleapis.com "
    "storage.googleapis.com --project=my-project",
    "quota": "Wait until other jobs have ended, or ask for more quota, and rerun the same command.",
    "account": "You may not use the workers' service account. Have somebody who may grant you "
    "roles/iam.serviceAccountUser on it.",
    "developer": "You may not start jobs in this project. Have somebody who may run: gcloud projects add-iam-policy-binding "
    "my-project --member=user:YOU --role=roles/dataflow.developer",
    "name": "An active job has this name: an earlier run's, this one's if an answer was lost, or somebody else's (gcloud "
    "dataflow jobs list). Rerun without --job_name (a build then has a name that no other has), or with another: where that job "
    "builds the same dataset, yours joins it.",
    "": "",
}
FAILED = {
    "package": "The workers have no shardfeed. Give --setup_file (run_dataflow.sh does), or an image that holds it: see "
    "Dockerfile and --sdk_container_image.",
    "dependency": "The workers lack what shardfeed depends on. With --setup_file workers need the network to install it; "
    "without, give an image that holds it: see Dockerfile and --sdk_container_image.",
    "disk": "A worker's disk is full. Give larger ones: --disk_size_gb 100",
    "image": "The workers cannot fetch the image. Is its address right, and may the workers' service account read it "
    "(roles/artifactregistry.reader)?",
    "machines": "The region is short of these machines. Rerun with another --worker_machine_type, or later.",
    "quota": "A quota is used up. Give fewer workers (--max_num_workers), or ask for more.",
    "memory": "Workers ended early, most likely for lack of memory. Rerun with a type that has more: --worker_machine_type "
    "n2-highmem-4",
    "permissions": "The workers' service account may not do what it must. Grant it roles/dataflow.worker, and storage roles on "
    "the buckets; docs/how-to/dataflow.md lists them.",
    "": "",
}

POOL = "Startup of the worker pool in zone us-central1-a failed to bring up any of the desired 1 workers."
HELP = "Please refer to https://cloud.google.com/dataflow/docs/guides/common-errors#worker-pool-failure for help troubleshooting."
ITEM = (
    "Workflow failed. Causes: S09:EncodeParts/Encode failed., The job failed because a work item has failed 4 "
    "times. Look in previous log entries for the cause of each one of the 4 failures. If the logs only contain generic timeout "
    "errors related to accessing external resources, such as MongoDB, verify that the worker service account has permission to "
    "access the resource's subnetwork. For more information, see https://cloud.google.com/dataflow/docs/guides/common-errors. "
    "The work item was attempted on these workers: \n\n  build-11220752-harness-1x2y\n      Root cause: {}"
)
TRACE = (
    "Error message from worker: generic::unknown: Traceback (most recent call last):\n"
    '  File "/usr/local/lib/python3.11/site-packages/transforms/types.py", line 88, in _load\n    load()\n{}\n'
)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("401 Request had invalid authentication credentials. Expected OAuth 2 access token", "login"),
        ("403 Dataflow API has not been used in project my-project before or it is disabled.", "APIs"),
        (
            "400 (1f): Some Cloud APIs need to be enabled for your project in order for Cloud Dataflow to run this job.",
            "APIs",
        ),
        ("429 (4a1): The project has 25 running jobs in region us-central1, the most that are allowed.", "quota"),
        ("400 (5d): Project my-project has insufficient quota(s) to execute this workflow with 1 instances", "quota"),
        ("403 Quota exceeded for quota metric 'Create requests' and limit 'Create requests per minute'", "quota"),
        ("403 (1): Current user cannot act as service account w@p.iam.gserviceaccount.com.", "account"),
        ("403 (4f1): Could not create workflow; user does not have write access to project: my-project", "developer"),
        ("403 (7b): Permission 'dataflow.jobs.create' denied on project: 'my-project'", "developer"),
        (
            "409 (4a1): The workflow could not be created. Causes: (5b): There is already an active job named mine.",
            "name",
        ),
        ("409 There is already active job named mine with id: job-1. If you want to submit a second job", "name"),
        # No remedy of ours: the text says what to do, or only looks like one of the above.
        ("403 The dataflow.googleapis.com API requires a quota project, which is not set by default.", ""),
        (
            "403 Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: d1lKGp3lXdHdCPnh",
            "",
        ),
        ("403 (8): Required 'compute.subnetworks.use' permission for 'projects/p/regions/r/subnetworks/s'", ""),
        ("404 (2b): The resource 'projects/p/global/networks/absent' was not found", ""),
        ("404 (8a2): Requested project my-project was not found", ""),
        ("400 (404): The job graph is too large. Please split your job; project my-project, region us-central1.", ""),
        ("400 (d): Invalid value for --labels: quota-network", ""),
        ("503 The service is currently unavailable.", ""),
    ],
    ids=lambda value: value[:60] or "none",
)
def test_a_refusal_has_the_remedy_of_what_it_says(text: str, remedy: str) -> None:
    told = f"\n{REFUSED[remedy]}" if remedy else ""
    assert explain_refusal(text, project="my-project") == f"Dataflow did not take the job: {text}{told}"


@pytest.mark.parametrize("text", ["", "\n\t\n"], ids=repr)
def test_a_failure_that_says_nothing_gave_no_reason(text: str) -> None:
    assert str(explain_failure("failed", text)) == (
        f"the job ended as failed and gave no reason; its page may.\n{CARRY_ON}"
    )


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (TRACE.format("ModuleNotFoundError: No module named 'transforms'"), "package"),
        (TRACE.format("ModuleNotFoundError: No module named 'obstore'"), "dependency"),
        (TRACE.format("OSError: [Errno 28] No space left on device"), "disk"),
        ("Failed to open system journal: No space left on device", "disk"),
        ("Image pull request failed with error", "image"),
        ("manifest for us-docker.pkg.dev/p/i:1 not found: manifest unknown: Failed to fetch", "image"),
        ("pull access denied for us-docker.pkg.dev/p/i", "image"),
        (
            f"{POOL} {HELP} ZONE_RESOURCE_POOL_EXHAUSTED: Instance 'x-harness-wxff' creation failed: The zone "
            "'projects/p/zones/us-central1-a' does not have enough resources available to fulfill the request.",
            "machines",
        ),
        (f"{POOL} {HELP} QUOTA_EXCEEDED: Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region us-central1.", "quota"),
        (f"{POOL} The project quota may have been exceeded or access control policies may be preventing it", "quota"),
        ("Workflow failed. Causes: Error: Message: Exceeded limit 'QUOTA_FOR_INSTANCES' on resource 'x-harness'.", "quota"),
        (ITEM.format("The worker lost contact with the service."), "memory"),
        (ITEM.format("Timed out waiting for an update from the worker."), "memory"),
        ("SDK harness sdk-0-0 was killed: OOMKilled, exit code 137", "memory"),
        (
            "Workflow failed. Causes: Permissions verification for controller service account failed. All permissions in IAM "
            "role roles/dataflow.worker should be granted to controller service account 1-compute@developer.gserviceaccount.com.",
            "permissions",
        ),
        ("Missing permissions storage.objects.get when accessing gs://photos as Dataflow worker service account", "permissions"),
        ('"w@p.iam.gserviceaccount.com" does not have `storage.objects.list` access to the bucket', "permissions"),
        # No remedy of ours: the text says what to do, or only looks like one of the above.
        ("Workflow failed. Causes: Subnetwork s on project p does not have Private Google Access", ""),
        ("IP_SPACE_EXHAUSTED: Instance 'x' creation failed: IP space of 'projects/p/subnetworks/s' is exhausted.", ""),
        (ITEM.format("SDK disconnect."), ""),
        (TRACE.format("OSError: [Errno 122] Disk quota exceeded: '/tmp/part'"), ""),
        ("Error message from worker: generic::unknown: OSError: [Errno 122] Disk quota exceeded", ""),
        (
            TRACE.format("StorageError: cannot get gs://photos/network/quota/1.jpg: 503")
            + "\nDuring handling of the above exception: Quota 'CPUS' exceeded",
            "",
        ),
        ("cannot get gs://photos/subnetwork/BROOM.jpg: the permission was withdrawn from the service account", ""),
        ("Workflow failed.", ""),
    ],
    ids=lambda value: value[:60] or "none",
)  # fmt: skip
def test_a_failure_has_the_remedy_of_what_it_says(text: str, remedy: str) -> None:
    error = explain_failure("failed", text)
    told = str(error).partition("\n")[2]
    if remedy in ("package", "dependency"):
        assert (type(error), told) == (UsageError, FAILED[remedy])
    else:
        assert (type(error), told) == (IncompleteError, f"{FAILED[remedy]} {CARRY_ON}".lstrip())
