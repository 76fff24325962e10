"""A run of ``run_dataflow.sh`` with programs in the places of gcloud and Python.

gcloud answers as release 528 does where all is well; each test changes one answer.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.packaging.sources import ROOT

IMAGE = "us-central1-docker.pkg.dev/my-project/shardfeed/shardfeed:0.1.0"

WORKER = "12345-compute@developer.gserviceaccount.com"


@dataclass(frozen=True)
class Says:
    """What gcloud says on standard error, where it has no answer."""

    text: str
    code: int = 1


Answer = str | Says

# Words of a call -> gcloud's answer.
WELL: dict[str, Answer] = {
    "auth list": "ann@example.com",
    "auth application-default print-access-token": "ya29.token",
    "projects describe": "12345\tACTIVE",
    "services list": "artifactregistry.googleapis.com\ncompute.googleapis.com\ndataflow.googleapis.com\nstorage.googleapis.com",
    "compute regions describe": "us-central1",
    "compute machine-types list": "n2-standard-8",
    "compute networks describe": "default",
    "compute networks subnets describe": "inner",
    "iam service-accounts describe": WORKER,
    "projects get-iam-policy": "roles/storage.objectUser\nroles/dataflow.worker",
    "artifacts docker images describe": "sha256:0f",
    "dataflow flex-template build": "Successfully saved container spec in flex template file.",
}

# gcloud 528's own words, with a server that answers 404, 403 and so on in Google's place.
DENIED = Says(
    "ERROR: (gcloud.compute.regions.describe) Could not fetch resource:\n"
    " - Required 'compute.regions.get' permission for 'projects/my-project/regions/us-central1'\n"
)

DENIED_BY_IAM = Says(
    "ERROR: (gcloud.services.list) [ann@example.com] does not have permission to access projects instance [my-project] (or it "
    "may not exist): Permission 'serviceusage.services.list' denied on resource '/v1/projects/my-project/services' (or it may "
    "not exist)."
)

DENIED_LIST = Says(
    "WARNING: Some requests did not succeed.\n"
    " - Required 'compute.machineTypes.list' permission for 'projects/my-project'\n\n"
    "WARNING: The following filter keys were not present in any resource : name, zone",
    code=0,
)

NO_KEYS = Says(
    "ERROR: (gcloud.auth.application-default.print-access-token) Your default credentials were not found. To set up Application "
    "Default Credentials, see https://cloud.google.com/docs/authentication/external/set-up-adc for more information."
)

NO_PROJECT = Says(
    "ERROR: (gcloud.projects.describe) Projects instance [my-project] not found: Requested entity was not found. This command is "
    "authenticated as ann@example.com which is the active account specified by the [core/account] property."
)

NO_RESOURCE = Says(
    "ERROR: (gcloud.compute.regions.describe) Could not fetch resource:\n"
    " - The resource 'projects/my-project/regions/us-central1' was not found\n"
)

NO_ACCOUNT = Says("ERROR: (gcloud.iam.service-accounts.describe) NOT_FOUND: Unknown service account.")

NO_TAG = Says(
    "ERROR: (gcloud.artifacts.docker.images.describe) Image not found.\n\nA valid container image can be referenced by tag or "
    "digest, has the format of\n  LOCATION-docker.DOMAIN/PROJECT-ID/REPOSITORY-ID/IMAGE:tag\n"
)

NO_REPOSITORY = Says("ERROR: (gcloud.artifacts.docker.images.describe) NOT_FOUND: Requested entity was not found.")

OFFLINE_LINE = (
    "ERROR: gcloud crashed (TransportError): HTTPSConnectionPool(host='oauth2.googleapis.com', port=443): Max retries exceeded "
    "with url: /token (Caused by NameResolutionError(\"Failed to resolve 'oauth2.googleapis.com'\"))"
)

OFFLINE = Says(
    f"{OFFLINE_LINE}\n\nIf you would like to report this issue, please run the following command:\n  gcloud feedback\n\n"
    "To check gcloud for common problems, please run the following command:\n  gcloud info --run-diagnostics\n"
)

LOGIN = (
    "Please run:\n\n  $ gcloud auth login\n\nto obtain new credentials.\n\nIf you have already logged in with a different "
    "account, run:\n\n  $ gcloud config set account ACCOUNT\n\nto select an already authenticated account to use."
)

EXPIRED_LINE = (
    "ERROR: (gcloud.projects.describe) There was a problem refreshing your current auth tokens: ('invalid_grant: Bad Request', "
    "{'error': 'invalid_grant', 'error_description': 'Bad Request'})"
)

EXPIRED = Says(f"{EXPIRED_LINE}\n{LOGIN}")

OFFLINE_KEYS_LINE = (
    "ERROR: (gcloud.auth.application-default.print-access-token) There was a problem refreshing your current auth tokens: "
    "HTTPSConnectionPool(host='oauth2.googleapis.com', port=443): Max retries exceeded with url: /token"
)

OFFLINE_KEYS = Says(f"{OFFLINE_KEYS_LINE}\n{LOGIN}")

BUSY = Says(
    "ERROR: (gcloud.compute.regions.describe) Could not fetch resource:\n - The service is currently unavailable.\n"
)

BUSY_LINE = "ERROR: (gcloud.compute.regions.describe) Could not fetch resource: The service is currently unavailable"

BUSY_LIST = Says(
    "WARNING: Some requests did not succeed.\n - The service is currently unavailable.\n\n"
    "WARNING: The following filter keys were not present in any resource : name, zone",
    code=0,
)

UNAVAILABLE = Says(
    "ERROR: (gcloud.artifacts.docker.images.describe) UNAVAILABLE: The service is currently unavailable."
)

RERUN = "Rerun, or skip what it is asked: CHECKS=no"

PLANNED = "Plan: gs://photos -> gs://datasets/flowers/v1 (nothing was written)"

BUILT = "Built: gs://datasets/flowers/v1"

PYTHON = f"""#!/bin/sh
[ "$1" = -c ] && exit 0
echo "$3: $*" >>"$CALLS"
[ "${{PYTHON_CODE:-0}}" = 0 ] || exit "$PYTHON_CODE"
[ "$3" = plan ] && printf '%s\\n' "${{PLANNED-{PLANNED}}}" && exit "${{PLAN_CODE:-0}}"
echo '{BUILT}'
"""


@dataclass(frozen=True)
class Ran:
    """One run of the script: exit code, what it said, and which of our commands it started with which arguments."""

    code: int
    out: str
    err: str
    started: list[str]
    asked: list[str]


def run(folder: Path, *arguments: str, answers: Mapping[str, Answer] | None = None, **variables: str) -> Ran:
    gcloud = ["#!/bin/sh", 'echo "$*" >>"$ASKED"', 'case "$*" in']
    for words, answer in {**WELL, **(answers or {})}.items():
        does = f"printf '%s\\n' {shlex.quote(answer if isinstance(answer, str) else answer.text)}"
        gcloud.append(f'*"{words}"*) {does}{"" if isinstance(answer, str) else f" >&2; exit {answer.code}"} ;;')
    (folder / "bin").mkdir()
    for name, text in (("gcloud", "\n".join([*gcloud, "*) exit 3 ;;", "esac", ""])), ("python", PYTHON)):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    calls, asked = folder / "calls", folder / "asked"
    env = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHON": str(folder / "bin" / "python"),
        "CALLS": str(calls),
        "ASKED": str(asked),
        "PROJECT": "my-project",
        "REGION": "us-central1",
        **variables,
    }
    done = subprocess.run([ROOT / "run_dataflow.sh", *arguments], cwd=folder, env=env, capture_output=True, text=True)
    lines = [path.read_text().splitlines() if path.exists() else [] for path in (calls, asked)]
    return Ran(done.returncode, done.stdout, done.stderr, *lines)


COMMAND = ("gs://photos", "gs://datasets/flowers/v1")
