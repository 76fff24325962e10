"""Texts of Dataflow, most from its documentation and from reports of its users, and the remedy that each is given.

https://docs.cloud.google.com/dataflow/docs/guides/common-errors, troubleshoot-networking and troubleshoot-permissions.
"""

from __future__ import annotations

import pytest

from shardfeed.errors import IncompleteError, UsageError
from shardfeed.pipeline.dataflow.remedies import explain_failure, explain_refusal

REFUSED = {
    "login": "gcloud auth application-default login",
    "quota project": "gcloud auth application-default set-quota-project my-project",
    "APIs": "gcloud services enable dataflow.googleapis.com",
    "quota": "Wait until other jobs have ended, or ask for more quota",
    "network": "Is the network right (--network, --subnetwork)? It must be of region us-central1",
    "account": "roles/iam.serviceAccountUser",
    "developer": "--role=roles/dataflow.developer",
    "perimeter": "(VPC Service Controls) keeps project my-project and you apart. Have its administrator let you in.",
    "region": "Is --region us-central1 right?",
    "bucket": "Is --temp_location right?",
    "project": "Is --project my-project right?",
    "": "",
}
FAILED = {
    "package": "The workers have no shardfeed.",
    "dependency": "The workers lack what shardfeed depends on.",
    "disk": "--disk_size_gb 100",
    "image": "The workers cannot fetch the image.",
    "machines": "Rerun with another --worker_machine_type, or later.",
    "addresses": "The subnetwork has no addresses left.",
    "quota": "A quota is used up. Give fewer workers (--max_num_workers)",
    "network": "Name one that exists (--network, --subnetwork)",
    "memory": "--worker_machine_type n2-highmem-4",
    "permissions": "Grant it roles/dataflow.worker",
    "": "",
}

SUBNETWORK = "https://www.googleapis.com/compute/v1/projects/p/regions/us-east1/subnetworks/s"
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
    '  File "/usr/local/lib/python3.11/site-packages/transforms/{}.py", line 88, in _{}\n    {}\n{}\n'
)

NO_RERUN_MENDS = ("package", "dependency")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("401 Request had invalid authentication credentials. Expected OAuth 2 access token", "login"),
        (
            "403 Your application is authenticating by using local Application Default Credentials. The dataflow.googleapis.com "
            "API requires a quota project, which is not set by default.",
            "quota project",
        ),
        ("403 Dataflow API has not been used in project my-project before or it is disabled.", "APIs"),
        ("400 (1f): Some Cloud APIs need to be enabled for your project in order for Cloud Dataflow to run this job.", "APIs"),
        (
            "429 Quota exceeded for quota metric 'Create requests' and limit 'Create requests per minute per region' of service "
            "'dataflow.googleapis.com' for consumer 'project_number:1'.",
            "quota",
        ),
        ("429 (4a1): The project has 25 running jobs in region us-central1, the most that are allowed.", "quota"),
        (
            "400 (5d): Project my-project has insufficient quota(s) to execute this workflow with 1 instances in region "
            "us-central1. Quota summary (required/available): 1/24 instances, 4/0 CPUs",
            "quota",
        ),
        ("400 (2b): The resource 'projects/p/regions/us-central1/subnetworks/absent' was not found", "network"),
        ("404 (2b): The resource 'projects/p/global/networks/absent' was not found", "network"),
        (f"400 (77): Subnetwork {SUBNETWORK} is not accessible to Dataflow Service account or does not exist", "network"),
        ("403 (8): Required 'compute.subnetworks.use' permission for 'projects/p/regions/r/subnetworks/s'", "network"),
        (
            f"400 (9): Invalid value for field 'resource.networkInterfaces[0].subnetwork': '{SUBNETWORK}'. Instance must be in "
            "the same region as the subnetwork.",
            "network",
        ),
        ("403 (1): Current user cannot act as service account w@p.iam.gserviceaccount.com.", "account"),
        (
            "403 (7b5183c85358d0cf): Could not create workflow; user does not have write access to project: my-project Causes: "
            "(7b5183c85358d196): Permission 'dataflow.jobs.create' denied on project: 'my-project'",
            "developer",
        ),
        (
            "403 Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: d1lKGp3lXdHdCPnh",
            "perimeter",
        ),
        (
            "400 (fada61b897668351): The workflow could not be created, since it was sent to an invalid regional endpoint (US). "
            "Please resubmit to a valid Cloud Dataflow regional endpoint.",
            "region",
        ),
        ("404 The specified bucket does not exist.", "bucket"),
        ("404 (8a2): Requested project my-project was not found", "project"),
        # No remedy of ours: words that others have too.
        ("400 (404): The job graph is too large. Please split your job; project my-project, region us-central1.", ""),
        ("400 (c): Cloud KMS key's region does not match the Dataflow region us-central1 of project my-project", ""),
        ("400 (d): Invalid value for --labels: quota-network", ""),
        ("503 The service is currently unavailable.", ""),
    ],
    ids=lambda value: value[:60] or "none",
)  # fmt: skip
def test_a_refusal_has_the_remedy_of_what_it_says(text: str, remedy: str) -> None:
    said, _, told = explain_refusal(text, project="my-project", region="us-central1").partition("\n")
    assert said == f"Dataflow did not take the job: {text}"
    assert (REFUSED[remedy] in told) if remedy else told == ""


@pytest.mark.parametrize("text", ["", " ", "\n\t\n"], ids=repr)
def test_a_failure_that_says_nothing_gave_no_reason(text: str) -> None:
    assert str(explain_failure("failed", text)) == (
        "the job ended as failed and gave no reason; its page may.\nWhat is finished is kept: rerun the same command to carry on."
    )


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (TRACE.format("types", "load", "import transforms", "ModuleNotFoundError: No module named 'transforms'"), "package"),
        (TRACE.format("gcs", "read", "import obstore", "ModuleNotFoundError: No module named 'obstore'"), "dependency"),
        (TRACE.format("parts", "spill", "file.write(data)", "OSError: [Errno 28] No space left on device"), "disk"),
        ("Failed to open system journal: No space left on device", "disk"),
        ("Image pull request failed with error", "image"),
        ("manifest for us-docker.pkg.dev/p/i:1 not found: manifest unknown: Failed to fetch", "image"),
        ("pull access denied for us-docker.pkg.dev/p/i", "image"),
        (
            f"{POOL} {HELP} ZONE_RESOURCE_POOL_EXHAUSTED: Instance 'x-harness-wxff' creation failed: The zone "
            "'projects/p/zones/us-central1-a' does not have enough resources available to fulfill the request.",
            "machines",
        ),
        (
            "IP_SPACE_EXHAUSTED: Instance 'x' creation failed: IP space of 'projects/p/regions/r/subnetworks/s' is exhausted.",
            "addresses",
        ),
        (
            f"{POOL} {HELP} QUOTA_EXCEEDED: Instance 'x-harness-ww4n' creation failed: Quota 'IN_USE_ADDRESSES' exceeded. Limit: "
            "8.0 in region us-central1.",
            "quota",
        ),
        (
            f"{POOL} The project quota may have been exceeded or access control policies may be preventing the operation; review "
            "the Cloud Logging 'VM Instance' log for diagnostics.",
            "quota",
        ),
        (
            "Workflow failed. Causes: Error: Message: Exceeded limit 'QUOTA_FOR_INSTANCES' on resource 'x-harness'. Limit: 8.0 "
            "HTTP Code: 403",
            "quota",
        ),
        (
            "Workflow failed. Causes: Network default is not accessible to Dataflow Service account or does not exist",
            "network",
        ),
        (f"Workflow failed. Causes: Subnetwork {SUBNETWORK} is not accessible to Dataflow Service account", "network"),
        (
            "Workflow failed. Causes: Subnetwork s on project p network n in region us-central1 does not have Private Google "
            "Access, which is required for usage of private IP addresses by the Dataflow workers.",
            "network",
        ),
        (
            "Workflow failed. Causes: Invalid Error: Message: Invalid value for field "
            "'resource.properties.networkInterfaces[0].subnetwork': ''. Network interface must specify a subnet if the network "
            "resource is in custom subnet mode. HTTP Code: 400",
            "network",
        ),
        ("Required 'compute.subnetworks.get' permission for 'projects/p/regions/r/subnetworks/s' HTTP Code: 403", "network"),
        (ITEM.format("The worker lost contact with the service."), "memory"),
        (ITEM.format("Timed out waiting for an update from the worker."), "memory"),
        ("SDK harness sdk-0-0 was killed: OOMKilled, exit code 137", "memory"),
        (
            "Workflow failed. Causes: Permissions verification for controller service account failed. All permissions in IAM "
            "role roles/dataflow.worker should be granted to controller service account 1-compute@developer.gserviceaccount.com.",
            "permissions",
        ),
        (
            "[The preflight pipeline validation failed for job 2026.] Missing permissions storage.objects.get when accessing "
            "gs://photos as Dataflow worker service account w@p.iam.gserviceaccount.com.",
            "permissions",
        ),
        (
            '"w@p.iam.gserviceaccount.com" does not have `storage.objects.list` access to the Google Cloud Storage Bucket',
            "permissions",
        ),
        # No remedy of ours: the words are there, what they stand for is not.
        (ITEM.format("SDK disconnect."), ""),
        (
            TRACE.format("parts", "spill", "file.write(data)", "OSError: [Errno 122] Disk quota exceeded: '/tmp/part'"),
            "",
        ),
        ("Error message from worker: generic::unknown: OSError: [Errno 122] Disk quota exceeded", ""),
        (TRACE.format("reading", "read", "get(ref)", "OSError: [Errno 101] Network is unreachable"), ""),
        (
            TRACE.format("reading", "read", "get(ref)", "StorageError: cannot get gs://photos/network/quota/1.jpg: 503")
            + "\nDuring handling of the above exception: Quota 'CPUS' exceeded; Network default is not accessible to Dataflow",
            "",
        ),
        ("cannot get gs://photos/subnetwork/BROOM.jpg: the permission was withdrawn from the service account", ""),
        ("Workflow failed.", ""),
    ],
    ids=lambda value: value[:60] or "none",
)  # fmt: skip
def test_a_failure_has_the_remedy_of_what_it_says(text: str, remedy: str) -> None:
    error = explain_failure("failed", text)
    told = str(error).split("\n", 1)[1]
    carry_on = "" if remedy in NO_RERUN_MENDS else "What is finished is kept: rerun the same command to carry on."
    assert type(error) is (IncompleteError if carry_on else UsageError)
    assert told.endswith(carry_on)
    assert (FAILED[remedy] in told) if remedy else told == carry_on
