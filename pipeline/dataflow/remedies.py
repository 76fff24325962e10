"""What to do when Dataflow refuses or fails a job.

The service's own text is always shown, because it knows more than we do. An entry here adds what
that text lacks: a flag, a role or a command. A wrong remedy is worse than none. So a pattern is a
phrase of the service, never a single word: a text about a quota also names a region, a file's name
may hold "network", and Dataflow's advice on any failed work item speaks of service accounts and
subnetworks.
"""

from __future__ import annotations

from shardfeed.errors import IncompleteError, ShardfeedError, UsageError, clip
from shardfeed.pipeline.engines.failure_text import (
    NO_DEPENDENCY,
    NO_PACKAGE,
    before_traceback,
    first_remedy,
    telling_line,
)

_CARRY_ON = "What is finished is kept: rerun the same command to carry on."
_SHOWN = 600  # characters of the service's own text

_QUOTA = (
    r"QUOTA_EXCEEDED|QUOTA_FOR_|(?i:quota '[\w-]+' exceeded)|Quota exceeded for quota metric|insufficient quota|"
    r"project quota may have been exceeded"
)

_REFUSALS = (  # of the request to create a job; a text begins with the status
    (r"^401\b|UNAUTHENTICATED", "Log in: gcloud auth application-default login"),
    (
        r"SERVICE_DISABLED|has not been used in project|API .*disabled|accessNotConfigured|APIs need to be enabled",
        "An API is off. Turn them on: gcloud services enable dataflow.googleapis.com compute.googleapis.com "
        "storage.googleapis.com --project={project}",
    ),
    (
        r"^429\b|RESOURCE_EXHAUSTED|" + _QUOTA,
        "Wait until other jobs have ended, or ask for more quota, and rerun the same command.",
    ),
    (
        r"already (an )?active job|ALREADY_EXISTS",
        "An active job has this name: an earlier run's, this one's if an answer was lost, or somebody else's (gcloud dataflow "
        "jobs list). Rerun without --job_name (a build then has a name that no other has), or with another: where that job "
        "builds the same dataset, yours joins it.",
    ),
    (
        r"actAs|act as service account|iam\.serviceAccounts",
        "You may not use the workers' service account. Have somebody who may grant you roles/iam.serviceAccountUser on it.",
    ),
    (
        r"dataflow\.jobs\.create|write access to project",
        "You may not start jobs in this project. Have somebody who may run: gcloud projects add-iam-policy-binding {project} "
        "--member=user:YOU --role=roles/dataflow.developer",
    ),
)

_NO_RERUN_MENDS = (  # Python's text on a worker, which a rerun would meet again
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

_FULL_DISK = (  # Python's text on a worker, in a traceback or not
    (r"No space left on device", "A worker's disk is full. Give larger ones: --disk_size_gb 100"),
)

_FAILURES = (  # of a job that was created, in the service's own words; the same command may carry it on
    (
        r"Image pull request failed|pull(ing)? (the )?(container )?image|ImagePull|ErrImage|manifest unknown|pull access denied",
        "The workers cannot fetch the image. Is its address right, and may the workers' service account read it "
        "(roles/artifactregistry.reader)?",
    ),
    (
        r"ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources available|stockout",
        "The region is short of these machines. Rerun with another --worker_machine_type, or later.",
    ),
    (_QUOTA, "A quota is used up. Give fewer workers (--max_num_workers), or ask for more."),
    (
        r"lost contact with the service|Timed out waiting for an update from the worker|out of memory|OutOfMemory|\bOOM|"
        r"exit code:? 137",
        "Workers ended early, most likely for lack of memory. Rerun with a type that has more: "
        "--worker_machine_type n2-highmem-4",
    ),
    (
        r"roles/dataflow\.worker|as Dataflow worker service account|controller service account|"
        r"does not have '?`?storage\.objects\.\w+",
        "The workers' service account may not do what it must. Grant it roles/dataflow.worker, and storage roles on the buckets; "
        "docs/how-to/dataflow.md lists them.",
    ),
)


def explain_refusal(text: str, *, project: str) -> str:
    """The message for a job that Dataflow did not take, with the remedy if the text says which."""
    remedy = first_remedy(text, _REFUSALS).format(project=project)
    return f"Dataflow did not take the job: {clip(text, _SHOWN)}\n{remedy}".rstrip()


def explain_failure(state: str, text: str) -> ShardfeedError:
    """The error to raise for a job that ended in ``state``; ``text`` is its most telling error."""
    what = f": {telling_line(text)}" if text.strip() else " and gave no reason; its page may."
    ended = f"the job ended as {state}{what}"
    if wrong := first_remedy(text, _NO_RERUN_MENDS):
        return UsageError(f"{ended}\n{wrong}")
    remedy = first_remedy(text, _FULL_DISK) or first_remedy(before_traceback(text), _FAILURES)
    return IncompleteError(f"{ended}\n{remedy} {_CARRY_ON}".replace("\n ", "\n"))
