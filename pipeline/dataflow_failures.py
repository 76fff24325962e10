"""What Dataflow says when it refuses or fails a job, and what to do about it.

Its texts name causes in the service's own terms. Each entry is a pattern of such a text and our remedy; the service's text is
always shown too, since it knows more than we do.
"""

from __future__ import annotations

from pipeline.telling import NO_DEPENDENCY, NO_PACKAGE, first_remedy, telling_line
from shardfeed.errors import IncompleteError, ShardfeedError, UsageError, clip

_CARRY_ON = "What is finished is kept: rerun the same command to carry on."
_SHOWN = 600  # characters of the service's own text

_REFUSALS = (  # of the request to create a job
    (r"\b401\b|UNAUTHENTICATED", "Log in: gcloud auth application-default login"),
    (
        r"SERVICE_DISABLED|has not been used in project|API .*disabled|accessNotConfigured",
        "An API is off. Turn them on: gcloud services enable dataflow.googleapis.com compute.googleapis.com "
        "storage.googleapis.com --project={project}",
    ),
    (
        r"actAs|iam\.serviceAccounts",
        "You may not use the workers' service account. Have somebody who may grant you roles/iam.serviceAccountUser on it.",
    ),
    (
        r"\b403\b|PERMISSION_DENIED|permission",
        "You may not start jobs in this project. Have somebody who may run: gcloud projects add-iam-policy-binding {project} "
        "--member=user:YOU --role=roles/dataflow.developer",
    ),
    (
        r"(?i)\bregion",
        "Is --region {region} right? Regions: gcloud compute regions list --project={project}",
    ),
    (
        r"\b404\b|NOT_FOUND|project",
        "Is --project {project} right? It is the project's id, not its title: gcloud projects list",
    ),
    (
        r"\b429\b|RESOURCE_EXHAUSTED|quota",
        "Wait until other jobs have ended, or ask for more quota, and rerun the same command.",
    ),
)

_NO_RERUN_MENDS = (  # of a job that was created
    (
        NO_PACKAGE,
        "The workers have no shardfeed. Give --setup_file (run_dataflow.sh does), or an image that holds it: see Dockerfile and "
        "--sdk_container_image.",
    ),
    (
        NO_DEPENDENCY,
        "The workers lack what shardfeed depends on. With --setup_file workers need the network to install it; without, give an "
        "image that holds it: see Dockerfile and --sdk_container_image.",
    ),
)

_FAILURES = (  # of a job that was created, and that the same command may carry on
    (
        r"pull(ing)? (the )?(container )?image|ImagePull|ErrImage|manifest unknown",
        "The workers cannot fetch the image. Is its address right, and may the workers' service account read it "
        "(roles/artifactregistry.reader)?",
    ),
    (
        r"ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources|stockout",
        "The region is short of these machines. Rerun with another --worker_machine_type, or later.",
    ),
    (
        r"(?i)quota",
        "A quota is used up. Give fewer workers (--max_num_workers), or ask for more.",
    ),
    (
        r"(?i)network|subnetwork",
        "The workers' network cannot be used. Name one that exists (--network, --subnetwork); without public addresses it needs "
        "Private Google Access.",
    ),
    (
        r"lost contact|out of memory|OutOfMemory|OOM|exit code:? 137",
        "Workers ended early, most likely for lack of memory. Rerun with a type that has more: "
        "--worker_machine_type n2-highmem-4",
    ),
    (
        r"dataflow\.worker|service account.*(permission|access)|(permission|access).*service account",
        "The workers' service account may not do what it must. Grant it roles/dataflow.worker, and storage roles on the buckets; "
        "docs/dataflow.md lists them.",
    ),
)


def explain_refusal(text: str, *, project: str, region: str) -> str:
    """The message for a job that Dataflow did not take, with the remedy where the text tells one."""
    remedy = first_remedy(text, _REFUSALS).format(project=project, region=region)
    return f"Dataflow did not take the job: {clip(text, _SHOWN)}\n{remedy}".rstrip()


def explain_failure(state: str, text: str) -> ShardfeedError:
    """The error to raise for a job that ended in ``state``; ``text`` is its most telling error."""
    what = f": {telling_line(text)}" if text else " and gave no reason; its page may."
    ended = f"the job ended as {state}{what}"
    if wrong := first_remedy(text, _NO_RERUN_MENDS):
        return UsageError(f"{ended}\n{wrong}")
    remedy = first_remedy(text, _FAILURES)
    return IncompleteError(f"{ended}\n{remedy} {_CARRY_ON}".replace("\n ", "\n"))
