"""``run_dataflow.sh`` and gcloud: what it asks before anything starts, and what it says to each answer.

A small program answers in gcloud's place, as gcloud 528 does where all is well; each test changes one answer.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.packaging.sources import ROOT
from tests.pipeline.photos import write_photos

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
[ "$3" = plan ] && printf '%s\\n' "${{PLANNED-{PLANNED}}}" || echo '{BUILT}'
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


def test_where_all_is_well_the_plan_is_shown_beside_the_result_of_a_job_with_the_same_arguments(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, "--image_size", "224")
    same = (
        "--input gs://photos --output gs://datasets/flowers/v1 --runner DataflowRunner --project my-project --region us-central1 "
        f"--temp_location gs://datasets/shardfeed-tmp --no_save_main_session --setup_file {ROOT}/setup.py --image_size 224"
    )
    assert (ran.code, ran.out, ran.err) == (0, f"{BUILT}\n", f"{PLANNED}\n")
    assert ran.started == [f"plan: -m pipeline plan {same}", f"build: -m pipeline build {same}"]


def test_more_inputs_follow_the_output(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, "--input", "gs://more", PLAN="no")
    (started,) = ran.started
    assert started.startswith(
        "build: -m pipeline build --input gs://photos --output gs://datasets/flowers/v1 --runner "
    )
    assert started.endswith(" --input gs://more")


@pytest.mark.parametrize("code", ["2", "3", "4", "5"])
def test_the_exit_code_is_the_commands(tmp_path: Path, code: str) -> None:
    ran = run(tmp_path, *COMMAND, PLAN="no", PYTHON_CODE=code)
    assert (ran.code, len(ran.started)) == (int(code), 1)


def test_a_plan_that_fails_ends_it_before_the_job(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PYTHON_CODE="2")
    assert (ran.code, [line.split(":")[0] for line in ran.started]) == (2, ["plan"])


def planned(folder: Path, good: int, bad: int, *flags: str, dataset: bool = False) -> str:
    """What `shardfeed plan` says of a folder with images that can be used and some that cannot."""
    photos = write_photos(folder / "photos", cat=good)
    for i in range(bad):
        (photos / "cat" / f"bad{i}.jpg").write_bytes(b"")
    if dataset:
        (folder / "out").mkdir()
        (folder / "out" / "manifest.json").write_text("{}")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["plan", "--input", str(photos), "--output", str(folder / "out"), *flags]) == 0
    return out.getvalue().rstrip("\n")


NONE = "none of the images read for train can be used: the build would publish nothing (exit 3)"
TOO_MANY = "about 2 images would be rejected and --max_rejected allows 1: the build would publish nothing (exit 3)"


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "JSON"])
@pytest.mark.parametrize(
    ("good", "flags", "why"),
    [(0, [], NONE), (3, ["--max_rejected=1"], TOO_MANY), (0, ["--max_rejected=1"], f"{NONE}, {TOO_MANY}")],
    ids=["no image can be used", "too many cannot", "both"],
)
def test_a_plan_that_foresees_no_dataset_ends_it_with_the_plans_words(
    tmp_path: Path, json: list[str], good: int, flags: list[str], why: str
) -> None:
    plan = planned(tmp_path, good, 2, *flags, *json)
    ran = run(tmp_path, *COMMAND, *flags, *json, PLANNED=plan)
    said = f"no job was submitted, for the plan says: {why}. It reads a sample; to submit all the same: PLAN=no"
    assert (ran.code, ran.out, ran.err) == (3, "", f"{plan}\nrun_dataflow.sh: {said}\n")
    assert [line.split(":")[0] for line in ran.started] == ["plan"]


@pytest.mark.parametrize(
    ("bad", "dataset"), [(1, False), (2, True)], ids=["rejects that are allowed", "the dataset is there already"]
)
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "JSON"])
def test_a_plan_with_other_notes_ends_nothing(tmp_path: Path, json: list[str], bad: int, dataset: bool) -> None:
    plan = planned(tmp_path, 3, bad, "--max_rejected=1", *json, dataset=dataset)
    ran = run(tmp_path, *COMMAND, *json, PLANNED=plan)
    assert (ran.code, ran.out, ran.err) == (0, f"{BUILT}\n", f"{plan}\n")


@pytest.mark.parametrize(
    ("json", "name"),
    [
        ([], "the build would publish nothing (exit 3)"),
        (["--json"], 'a", "notes": ["the build would publish nothing (exit 3)"], "'),
    ],
    ids=["text", "JSON"],
)
def test_a_class_that_is_called_like_the_plans_words_ends_nothing(tmp_path: Path, json: list[str], name: str) -> None:
    photos = write_photos(tmp_path / "photos", cat=1)
    (photos / "cat").rename(photos / name)
    plan = planned(tmp_path, 1, 0, *json)
    assert "nothing (exit 3)" in plan
    assert run(tmp_path, *COMMAND, *json, PLANNED=plan).code == 0


@pytest.mark.parametrize(
    "image",
    [
        "us-docker.pkg.dev/my-project/images/shardfeed:RC1",
        "localhost:5000/shardfeed:V1_2.3-x@sha256:0f",
        "gcr.io/example.com/p/i",
    ],
)
def test_an_image_may_have_capitals_in_its_tag(tmp_path: Path, image: str) -> None:
    ran = run(tmp_path, *COMMAND, IMAGE=image)
    assert ran.code == 0, ran.err
    assert f" --sdk_container_image {image}" in ran.started[-1]


@pytest.mark.parametrize("image", ["gcr.io/P/i:1", "gcr.io/p/i:-1", f"gcr.io/p/i:{'x' * 129}", "gcr.io/p/i:R/1"])
def test_an_image_that_cannot_be_is_refused(tmp_path: Path, image: str) -> None:
    ran = run(tmp_path, *COMMAND, IMAGE=image)
    assert (ran.code, ran.asked) == (2, [])
    assert ran.err.startswith(f"run_dataflow.sh: IMAGE is '{image}'; it must be an image's address, such as ")


def test_without_checks_gcloud_is_not_asked(tmp_path: Path) -> None:
    assert run(tmp_path, *COMMAND, CHECKS="no").asked == []


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("/no/python", "PYTHON=/no/python is not a program. Give a Python with this package and Apache Beam."),
        ("false", f"false has no Apache Beam. Install it with: false -m pip install '{ROOT}[beam]'"),
    ],
)
def test_a_python_that_cannot_run_the_command_is_named(tmp_path: Path, python: str, said: str) -> None:
    ran = run(tmp_path, *COMMAND, PYTHON=python)
    assert (ran.code, ran.out, ran.err, ran.started) == (2, "", f"run_dataflow.sh: {said}\n", [])


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--runner", "this script is for Dataflow. For other engines: shardfeed build --runner …"),
        ("--sdk_container_image", "give the image as IMAGE=…, for it is looked up first."),
        ("--temp_location=gs://b/t", "give the folder as TEMP=gs://…, for its bucket is looked at first."),
        ("--worker_machine_type", "give the type as MACHINE_TYPE=…, for it is looked up first."),
        ("--network", "give it as NETWORK=…, for it is looked up first."),
        ("--subnetwork=regions/r/subnetworks/s", "give it as NETWORK=…, for it is looked up first."),
        ("--service_account_email", "give the account as SERVICE_ACCOUNT=…, for it is asked about."),
        ("--output=gs://b/c", "the output is the second argument."),
        ("--project", "give the project as PROJECT=…, for it is what gcloud is asked about."),
        ("--machine_type=n1-standard-1", "give the type as MACHINE_TYPE=…, for it is looked up first."),
        ("--worker_harness_container_image", "give the image as IMAGE=…, for it is looked up first."),
        ("--worker_region", "give the region as REGION=…, for it is what gcloud is asked about."),
        ("--worker_zone=us-east1-b", "give the region as REGION=…, for it is what gcloud is asked about."),
        ("--zone", "give the region as REGION=…, for it is what gcloud is asked about."),
        ("--setup_file", "the workers' package is made by this checkout's setup.py. For another: IMAGE=…"),
        ("--region=us-east1", "give the region as REGION=…, for it is what gcloud is asked about."),
        ("--worker-machine-type", "give the type as MACHINE_TYPE=…, for it is looked up first."),
        ("--temp-location=gs://b/t-t", "give the folder as TEMP=gs://…, for its bucket is looked at first."),
    ],
)
def test_what_the_script_gives_itself_is_not_given_again(tmp_path: Path, flag: str, said: str) -> None:
    ran = run(tmp_path, *COMMAND, "--image_size", "224", flag, "DirectRunner")
    assert (ran.code, ran.err, ran.started) == (2, f"run_dataflow.sh: {flag} after OUTPUT: {said}\n", [])


REFUSALS: list[tuple[str, dict[str, Answer], dict[str, str], str]] = [
    ("no account", {"auth list": ""}, {}, "gcloud has no account. Log in: gcloud auth login"),
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
        "project my-project does not exist, or ann@example.com may not see it. Yours: gcloud projects list",
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
        "project permission-x does not exist, or ann@example.com may not see it. Yours: gcloud projects list",
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


def test_a_shared_networks_project_is_asked(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, NETWORK="projects/host-proj/regions/us-central1/subnetworks/shared")
    assert ran.code == 0
    assert any("subnets describe shared" in line and "--project=host-proj" in line for line in ran.asked)


@pytest.mark.parametrize(
    ("network", "flag"),
    [
        ("projects/my-project/global/networks/inner", "--network inner"),
        ("inner", "--network inner"),
        ("regions/us-central1/subnetworks/s", "--subnetwork regions/us-central1/subnetworks/s"),
    ],
)
def test_a_network_is_given_by_name_or_in_full(tmp_path: Path, network: str, flag: str) -> None:
    ran = run(tmp_path, *COMMAND, NETWORK=network, PLAN="no")
    assert ran.code == 0, ran.err
    assert f" {flag} " in ran.started[0]


def test_a_subnetwork_of_another_region_is_refused(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, NETWORK="regions/europe-west1/subnetworks/s")
    said = "NETWORK is in region europe-west1, the workers are in us-central1. Take a subnetwork of us-central1."
    assert (ran.code, ran.err, ran.started) == (2, f"run_dataflow.sh: {said}\n", [])


@pytest.mark.parametrize(("name", "example"), [("PROJECT", "my-project"), ("REGION", "us-central1")])
def test_what_is_required_is_named_in_one_line(tmp_path: Path, name: str, example: str) -> None:
    ran = run(tmp_path, *COMMAND, **{name: ""})
    assert (ran.code, ran.started) == (2, [])
    assert re.fullmatch(rf"run_dataflow\.sh: {name} is required: .*, as in {name}={example}\n", ran.err)


def test_a_template_is_made_of_the_image_and_the_command_that_starts_it_is_shown(tmp_path: Path) -> None:
    ran = run(tmp_path, "--template", "gs://templates/shardfeed.json", IMAGE=IMAGE)
    assert (ran.code, ran.err, ran.started) == (0, "", [])
    assert ran.asked[-1] == (
        f"dataflow flex-template build gs://templates/shardfeed.json --project=my-project --image={IMAGE} --sdk-language=PYTHON "
        f"--metadata-file={ROOT}/flex_template.json"
    )
    assert f"sdk_container_image={IMAGE}\n" in ran.out
    assert re.search(r"^Template: gs://templates/shardfeed\.json$", ran.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (("gs://templates/t.json",), {}, "IMAGE is required for a template"),
        (("gs://templates",), {"IMAGE": IMAGE}, "TEMPLATE is 'gs://templates'; it must be gs://BUCKET/NAME.json."),
        (("gs://t/t.json", "--image_size"), {"IMAGE": IMAGE}, "--template takes one address"),
        ((), {"IMAGE": IMAGE}, "--template takes one address"),
    ],
    ids=["no image", "no file", "more", "no address"],
)
def test_a_template_that_cannot_be_made_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    ran = run(tmp_path, "--template", *arguments, **variables)
    assert (ran.code != 0, ran.asked) == (True, [])
    assert said in ran.err


def test_a_template_that_gcloud_refuses_is_an_error(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "--template",
        "gs://templates/t.json",
        answers={"dataflow flex-template build": UNAVAILABLE},
        IMAGE=IMAGE,
    )
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err == f"{UNAVAILABLE.text}\nrun_dataflow.sh: gcloud could not make the template; its message is above.\n"
    )
