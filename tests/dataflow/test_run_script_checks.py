"""``run_dataflow.sh`` and gcloud: what it asks before anything starts, and what it says to each answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.dataflow.script import (
    BUSY,
    BUSY_LINE,
    BUSY_LIST,
    COMMAND,
    DENIED,
    DENIED_BY_IAM,
    DENIED_LIST,
    EXPIRED,
    EXPIRED_LINE,
    IMAGE,
    NO_ACCOUNT,
    NO_KEYS,
    NO_PROJECT,
    NO_REPOSITORY,
    NO_RESOURCE,
    NO_TAG,
    OFFLINE,
    OFFLINE_KEYS,
    OFFLINE_KEYS_LINE,
    OFFLINE_LINE,
    PLANNED,
    RERUN,
    UNAVAILABLE,
    WORKER,
    Answer,
    Says,
    run,
)
from tests.packaging.sources import ROOT

REFUSALS: list[tuple[str, dict[str, Answer], dict[str, str], str]] = [
    ("no account", {"auth list": ""}, {}, "gcloud has no account. Log in: gcloud auth login"),
    (
        "a gcloud that is broken",
        {"auth list": Says("ERROR: gcloud failed to load: No module named 'googlecloudsdk'")},
        {},
        f"gcloud could not ask Google: ERROR: gcloud failed to load: No module named 'googlecloudsdk'. {RERUN}",
    ),
    (
        "no application default credentials",
        {"auth application-default print-access-token": NO_KEYS},
        {},
        "there are no application default credentials, which Beam uses. Log in: gcloud auth application-default login",
    ),
    (
        "no network",
        {"projects describe": OFFLINE},
        {},
        f"gcloud could not ask Google: {OFFLINE_LINE}. {RERUN}",
    ),
    (
        "no network for the tokens",
        {"auth application-default print-access-token": OFFLINE_KEYS},
        {},
        f"gcloud could not ask Google: {OFFLINE_KEYS_LINE}. {RERUN}",
    ),
    (
        "an expired login",
        {"projects describe": EXPIRED},
        {},
        f"gcloud could not ask Google: {EXPIRED_LINE}. Log in again: gcloud auth login",
    ),
    (
        "expired application default credentials",
        {"auth application-default print-access-token": EXPIRED},
        {},
        f"gcloud could not ask Google: {EXPIRED_LINE}. Log in again: gcloud auth application-default login",
    ),
    (
        "no reason",
        {"services list": Says("")},
        {},
        f"gcloud could not ask Google: it gave no reason. {RERUN}",
    ),
    (
        "a line that is no error's",
        {"services list": Says("\n\ngcloud: line 3: python3: cannot execute\nmore")},
        {},
        f"gcloud could not ask Google: gcloud: line 3: python3: cannot execute. {RERUN}",
    ),
    (
        "no project",
        {"projects describe": NO_PROJECT},
        {},
        "project my-project does not exist, or ann@example.com may not see it (then: CHECKS=no). Yours: gcloud projects list",
    ),
    (
        "a project being deleted",
        {"projects describe": "12345\tDELETE_REQUESTED"},
        {},
        "project my-project is being deleted. Take another: gcloud projects list",
    ),
    (
        "APIs off",
        {"services list": "compute.googleapis.com"},
        {},
        "APIs of project my-project are off. Turn them on: gcloud services enable dataflow.googleapis.com "
        "storage.googleapis.com --project=my-project",
    ),
    (
        "no region",
        {"compute regions describe": NO_RESOURCE},
        {},
        "project my-project has no region us-central1. Its regions: gcloud compute regions list --project=my-project",
    ),
    (
        "no machines",
        {"compute machine-types list": ""},
        {"MACHINE_TYPE": "n9-standard-8"},
        "region us-central1 has no machines of type n9-standard-8. Its types: gcloud compute machine-types list "
        "--filter=zone~^us-central1-",
    ),
    (
        "no such network",
        {"compute networks describe": NO_RESOURCE},
        {},
        "project my-project has no network default. Name one: NETWORK=… (gcloud compute networks list --project=my-project)",
    ),
    (
        "no subnetwork",
        {"compute networks subnets describe": NO_RESOURCE},
        {"NETWORK": "regions/us-central1/subnetworks/inner"},
        "region us-central1 has no subnetwork inner. Its own: gcloud compute networks subnets list --regions=us-central1",
    ),
    (
        "no workers' account",
        {"iam service-accounts describe": NO_ACCOUNT},
        {"SERVICE_ACCOUNT": "w@my-project.iam.gserviceaccount.com"},
        "the workers' account w@my-project.iam.gserviceaccount.com is not in project my-project. Name another: "
        "SERVICE_ACCOUNT=… (gcloud iam service-accounts list)",
    ),
    (
        "a workers' account without the role",
        {"projects get-iam-policy": "roles/storage.objectUser"},
        {},
        f"the workers' account {WORKER} may not work for Dataflow. Allow it: gcloud projects add-iam-policy-binding my-project "
        f"--member=serviceAccount:{WORKER} --role=roles/dataflow.worker (where it may by a role of its folder, organisation or "
        "group: CHECKS=no)",
    ),
    *(
        (
            name,
            {"artifacts docker images describe": answer},
            {"IMAGE": IMAGE},
            f"there is no image {IMAGE}, or ann@example.com may not see it. Build it: gcloud builds submit --project=my-project "
            f"--tag={IMAGE} {ROOT}",
        )
        for name, answer in (("no image", NO_TAG), ("no repository", NO_REPOSITORY))
    ),
    (
        "no project of such a name",
        {"projects describe": NO_PROJECT},
        {"PROJECT": "permission-x"},
        "project permission-x does not exist, or ann@example.com may not see it (then: CHECKS=no). Yours: gcloud projects list",
    ),
    (
        "no region in a project that is called like a refusal",
        {"compute regions describe": Says(NO_RESOURCE.text.replace("my-project", "permission-x"))},
        {"PROJECT": "permission-x"},
        "project permission-x has no region us-central1. Its regions: gcloud compute regions list --project=permission-x",
    ),
    (
        "busy: machines",
        {"compute machine-types list": BUSY_LIST},
        {"MACHINE_TYPE": "n2-standard-8"},
        "gcloud could not ask Google: WARNING: Some requests did not succeed. The service is currently unavailable. "
        + RERUN,
    ),
    *(
        (f"busy: {words}", {words: BUSY}, variables, f"gcloud could not ask Google: {BUSY_LINE}. {RERUN}")
        for words, variables in (
            ("services list", {}),
            ("compute regions describe", {}),
            ("compute networks describe", {}),
            ("compute networks subnets describe", {"NETWORK": "regions/us-central1/subnetworks/inner"}),
            ("iam service-accounts describe", {}),
            ("projects get-iam-policy", {}),
        )
    ),
    (
        "busy: images",
        {"artifacts docker images describe": UNAVAILABLE},
        {"IMAGE": IMAGE},
        f"gcloud could not ask Google: {UNAVAILABLE.text[:-1]}. {RERUN}",
    ),
    (
        "a login that expires on the way",
        {"compute regions describe": EXPIRED},
        {},
        f"gcloud could not ask Google: {EXPIRED_LINE}. Log in again: gcloud auth login",
    ),
]


@pytest.mark.parametrize(
    ("answers", "variables", "said"), [case[1:] for case in REFUSALS], ids=[c[0] for c in REFUSALS]
)
def test_what_is_missing_is_named_with_the_remedy_before_anything_starts(
    tmp_path: Path, answers: dict[str, Answer], variables: dict[str, str], said: str
) -> None:
    ran = run(tmp_path, *COMMAND, answers=answers, **variables)
    assert (ran.code, ran.out, ran.err, ran.started) == (2, "", f"run_dataflow.sh: {said}\n", [])


def test_a_machine_without_gcloud_is_told_both_ways_out(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "grep", "sed", "env"):
        found = [folder for folder in os.environ["PATH"].split(":") if os.access(f"{folder}/{name}", os.X_OK)]
        (tools / name).symlink_to(f"{found[0]}/{name}")
    (tmp_path / "run").mkdir()
    ran = run(tmp_path / "run", *COMMAND, PATH=str(tools))
    assert (ran.code, ran.started) == (2, [])
    assert ran.err == (
        "run_dataflow.sh: gcloud is not on PATH. Install it (https://cloud.google.com/sdk/docs/install), or skip what it is "
        "asked: CHECKS=no\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("services list", "ann@example.com may not list the APIs of my-project; going on without that check."),
        ("projects get-iam-policy", f"ann@example.com may not see the roles of {WORKER}; going on without that check."),
    ],
    ids=["APIs", "roles"],
)
def test_what_may_not_be_asked_is_said_and_stops_nothing(tmp_path: Path, words: str, said: str) -> None:
    ran = run(tmp_path, *COMMAND, answers={words: DENIED_BY_IAM})
    assert (ran.code, ran.err, len(ran.started)) == (0, f"run_dataflow.sh: {said}\n{PLANNED}\n", 2)


@pytest.mark.parametrize(
    ("words", "answer", "what", "variables"),
    [
        ("compute regions describe", DENIED, "region us-central1", {}),
        ("compute machine-types list", DENIED, "machine type n2-standard-8", {"MACHINE_TYPE": "n2-standard-8"}),
        ("compute machine-types list", DENIED_LIST, "machine type n2-standard-8", {"MACHINE_TYPE": "n2-standard-8"}),
        ("compute networks describe", DENIED, "network default", {}),
        (
            "compute networks subnets describe",
            DENIED,
            "subnetwork inner",
            {"NETWORK": "regions/us-central1/subnetworks/inner"},
        ),
        ("iam service-accounts describe", DENIED_BY_IAM, f"account {WORKER}", {}),
        ("artifacts docker images describe", DENIED_BY_IAM, f"image {IMAGE}", {"IMAGE": IMAGE}),
    ],
)
def test_what_may_not_be_looked_at_is_said_and_stops_nothing(
    tmp_path: Path, words: str, answer: Says, what: str, variables: dict[str, str]
) -> None:
    ran = run(tmp_path, *COMMAND, answers={words: answer}, **variables)
    said = f"run_dataflow.sh: ann@example.com may not look at {what}; going on without that check.\n{PLANNED}\n"
    assert (ran.code, ran.err, len(ran.started)) == (0, said, 2)
