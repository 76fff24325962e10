"""``run_dataflow.sh`` and gcloud: what the script asks before anything starts, and what it makes of the answers.

The answers are gcloud 528's own words, with a server that answers 404, 403 and so on in Google's place.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.dataflow.script import COMMAND, IMAGE, PLANNED, WORKER, Answer, Says, run
from tests.kit.sources import ROOT

NO_LOGIN = Says(
    "ERROR: (gcloud.auth.print-access-token) You do not currently have an active account selected.\nPlease run:\n\n"
    "  $ gcloud auth login\n\nto obtain new credentials."
)
NO_PROJECT = Says(
    "ERROR: (gcloud.projects.describe) Projects instance [my-project] not found: Requested entity was not found."
)
NO_RESOURCE = Says(
    "ERROR: (gcloud.compute.networks.describe) Could not fetch resource:\n"
    " - The resource 'projects/my-project/global/networks/default' was not found\n"
)
NO_TAG = Says("ERROR: (gcloud.artifacts.docker.images.describe) Image not found.\n\nA valid container image can be …")
NO_REPOSITORY = Says("ERROR: (gcloud.artifacts.docker.images.describe) NOT_FOUND: Requested entity was not found.")

DENIED = Says(
    "ERROR: (gcloud.compute.networks.describe) Could not fetch resource:\n"
    " - Required 'compute.networks.get' permission for 'projects/my-project/global/networks/default'"
)
DENIED_BY_IAM = Says(
    "ERROR: (gcloud.projects.get-iam-policy) [ann@example.com] does not have permission to access projects instance "
    "[my-project:getIamPolicy] (or it may not exist): The caller does not have permission."
)
DENIED_LIST = Says(
    "WARNING: Some requests did not succeed.\n"
    " - Required 'compute.machineTypes.list' permission for 'projects/my-project'\n\n"
    "WARNING: The following filter keys were not present in any resource : name, zone",
    code=0,
)
BUSY = Says("ERROR: (gcloud.artifacts.docker.images.describe) UNAVAILABLE: The service is currently unavailable.")

SUBNETWORK = "regions/us-central1/subnetworks/inner"


def test_gcloud_is_asked_about_what_workers_need(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, MACHINE_TYPE="n2-standard-8", IMAGE=IMAGE)
    assert ran.code == 0, ran.err
    assert ran.asked == [
        "auth print-access-token",
        "projects describe my-project --format=value(projectNumber)",
        "--quiet projects get-iam-policy my-project --flatten=bindings[].members "
        f"--filter=bindings.members:serviceAccount:{WORKER} --format=value(bindings.role)",
        "--quiet compute networks describe default --project=my-project",
        "--quiet compute machine-types list --project=my-project "
        "--filter=name=n2-standard-8 AND zone~^us-central1- --limit=1 --format=value(name)",
        f"--quiet artifacts docker images describe {IMAGE}",
    ]


def test_without_checks_gcloud_is_not_asked(tmp_path: Path) -> None:
    assert run(tmp_path, *COMMAND, CHECKS="no").asked == []


@pytest.mark.parametrize(
    ("network", "asked"),
    [
        (SUBNETWORK, f"projects/my-project/{SUBNETWORK}"),
        (f"projects/host-proj/{SUBNETWORK}", f"projects/host-proj/{SUBNETWORK}"),
        (f"https://www.googleapis.com/compute/v1/projects/host-proj/{SUBNETWORK}",) * 2,
    ],
)
def test_a_subnetwork_is_asked_about_in_its_own_project(tmp_path: Path, network: str, asked: str) -> None:
    ran = run(tmp_path, *COMMAND, NETWORK=network)
    assert ran.code == 0, ran.err
    assert f"--quiet compute networks subnets describe {asked} --project=my-project" in ran.asked


REFUSALS: list[tuple[str, dict[str, Answer], dict[str, str], str]] = [
    (
        "no project",
        {"projects describe": NO_PROJECT},
        {},
        "project my-project does not exist, or you may not see it (then: CHECKS=no). Yours: gcloud projects list",
    ),
    (
        "a workers' account without the role",
        {"projects get-iam-policy": "roles/storage.objectUser"},
        {},
        f"the workers' account {WORKER} may not work for Dataflow. Allow it: gcloud projects add-iam-policy-binding "
        f"my-project --member=serviceAccount:{WORKER} --role=roles/dataflow.worker (where it may by a role of its "
        "folder, organisation or group: CHECKS=no)",
    ),
    (
        "another workers' account without a role",
        {"projects get-iam-policy": ""},
        {"SERVICE_ACCOUNT": "w@p.iam.gserviceaccount.com"},
        "the workers' account w@p.iam.gserviceaccount.com may not work for Dataflow. Allow it: gcloud projects "
        "add-iam-policy-binding my-project --member=serviceAccount:w@p.iam.gserviceaccount.com "
        "--role=roles/dataflow.worker (where it may by a role of its folder, organisation or group: CHECKS=no)",
    ),
    (
        "no network",
        {"compute networks describe": NO_RESOURCE},
        {},
        "there is no network default. Name one: NETWORK=… (gcloud compute networks subnets list --project=my-project "
        "--regions=us-central1)",
    ),
    (
        "no subnetwork",
        {"compute networks subnets describe": NO_RESOURCE},
        {"NETWORK": SUBNETWORK},
        f"there is no network {SUBNETWORK}. Name one: NETWORK=… (gcloud compute networks subnets list "
        "--project=my-project --regions=us-central1)",
    ),
    (
        "no machines",
        {"compute machine-types list": ""},
        {"MACHINE_TYPE": "n9-standard-8"},
        "region us-central1 has no machines of type n9-standard-8. Its types: gcloud compute machine-types list "
        "--filter=zone~^us-central1-",
    ),
    *(
        (
            name,
            {"artifacts docker images describe": answer},
            {"IMAGE": IMAGE},
            f"there is no image {IMAGE}, or you may not see it. Build it: gcloud builds submit --project=my-project "
            f"--tag={IMAGE} {ROOT}",
        )
        for name, answer in (("no image", NO_TAG), ("no repository", NO_REPOSITORY))
    ),
]


@pytest.mark.parametrize(
    ("answers", "variables", "said"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_what_is_missing_is_named_with_the_remedy_before_anything_starts(
    tmp_path: Path, answers: dict[str, Answer], variables: dict[str, str], said: str
) -> None:
    ran = run(tmp_path, *COMMAND, answers=answers, **variables)
    assert (ran.code, ran.out, ran.started) == (2, "", [])
    assert ran.err.splitlines()[-1] == f"run_dataflow.sh: {said}"


def test_without_a_login_the_remedy_follows_gclouds_message(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, answers={"auth print-access-token": NO_LOGIN})
    said = (
        "gcloud has no login, or no network; its message is above. Log in: gcloud auth login. Or skip what it is "
        "asked: CHECKS=no"
    )
    assert (ran.code, ran.out, ran.started) == (2, "", [])
    assert ran.err == f"{NO_LOGIN.text}\nrun_dataflow.sh: {said}\n"


def test_a_machine_without_gcloud_is_told_both_ways_out(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "env"):
        found = [folder for folder in os.environ["PATH"].split(":") if os.access(f"{folder}/{name}", os.X_OK)]
        (tools / name).symlink_to(f"{found[0]}/{name}")
    (tmp_path / "run").mkdir()
    ran = run(tmp_path / "run", *COMMAND, PATH=str(tools))
    assert (ran.code, ran.started) == (2, [])
    assert ran.err == (
        "run_dataflow.sh: gcloud is not on PATH. Install it (https://cloud.google.com/sdk/docs/install), or skip what "
        "it is asked: CHECKS=no\n"
    )


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("projects get-iam-policy", DENIED_BY_IAM),
        ("compute networks describe", DENIED),
        ("compute machine-types list", DENIED_LIST),
        ("artifacts docker images describe", BUSY),
    ],
    ids=["denied by IAM", "denied by Compute", "a list denied", "busy"],
)
def test_what_gcloud_cannot_tell_is_said_and_stops_nothing(tmp_path: Path, words: str, answer: Says) -> None:
    ran = run(tmp_path, *COMMAND, answers={words: answer}, MACHINE_TYPE="n2-standard-8", IMAGE=IMAGE)
    said = f"run_dataflow.sh: gcloud could not tell, so this check is left out: gcloud {words} "
    assert (ran.code, ran.commands) == (0, ["plan", "build"])
    assert ran.err.startswith(said)
    assert ran.err.endswith(f"\n{answer.text}\n{PLANNED}\n")
