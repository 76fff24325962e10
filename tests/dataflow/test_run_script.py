"""``run_dataflow.sh``: its variables and arguments, its questions to gcloud, its plan, templates.

The answers are gcloud 528's own words, given when a server in Google's place answered 404, 403 and
so on.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from shardfeed.cli.main import main
from tests.dataflow.script import (
    BUILT,
    COMMAND,
    IMAGE,
    PLANNED,
    SCRIPTED_PYTHON,
    WORKER,
    Answer,
    Says,
    run,
    write_program,
)  # fmt: skip
from tests.kit.images import write
from tests.kit.sources import ROOT

FIXED = [
    *["--input", "gs://photos", "--output", "gs://datasets/flowers/v1", "--runner", "DataflowRunner"],
    *["--project", "my-project", "--region", "us-central1"],
]
TEMP = ["--temp_location", "gs://datasets/shardfeed-tmp"]
SETUP = ["--setup_file", f"{ROOT}/setup.py"]
SUBNETWORK = "regions/us-central1/subnetworks/inner"


def test_the_plan_is_shown_and_then_a_job_is_submitted_with_the_same_arguments(tmp_path: Path) -> None:
    further = [
        *("--image_size", "224", "--input", "gs://more"),
        *("--class_list", "my classes.txt", "--labels", "team=$vision *"),
    ]
    ran = run(tmp_path, *COMMAND, *further)
    same = [*FIXED, *TEMP, *SETUP, *further]
    assert (ran.code, ran.out, ran.err) == (0, f"{BUILT}\n", f"{PLANNED}\n")
    assert ran.started == [
        ["-m", "shardfeed", "plan", "--list_at_most", "1000000", *same],
        ["-m", "shardfeed", "build", *same],
    ]


@pytest.mark.parametrize(
    ("variable", "value", "options"),
    [
        ("WORKERS", "40", [*TEMP, "--max_num_workers", "40", *SETUP]),
        ("MACHINE_TYPE", "n2-standard-8", [*TEMP, "--worker_machine_type", "n2-standard-8", *SETUP]),
        ("SERVICE_ACCOUNT", "w@p.iam", [*TEMP, "--service_account_email", "w@p.iam", *SETUP]),
        ("NETWORK", "inner", [*TEMP, "--network", "inner", *SETUP]),
        ("NETWORK", "projects/my-project/global/networks/inner", [*TEMP, "--network", "inner", *SETUP]),
        ("NETWORK", SUBNETWORK, [*TEMP, "--subnetwork", SUBNETWORK, *SETUP]),
        ("IMAGE", IMAGE, [*TEMP, "--sdk_container_image", IMAGE]),
        ("TEMP", "gs://scratch/df", ["--temp_location", "gs://scratch/df", *SETUP]),
    ],
)
def test_a_variable_becomes_an_option(tmp_path: Path, variable: str, value: str, options: list[str]) -> None:
    ran = run(tmp_path, *COMMAND, PLAN="no", env={variable: value})
    assert (ran.code, ran.err) == (0, "")
    assert ran.started == [["-m", "shardfeed", "build", *FIXED, *options]]


def test_help_is_shown_wherever_it_is_asked_for(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, "--image_size", "224", "--help")
    assert (ran.code, ran.err, ran.started, ran.asked) == (0, "", [], [])
    assert ran.out.startswith("Builds a dataset on Google Cloud Dataflow.\n")
    assert ran.out.endswith("the console or by a schedule.\n")


def test_without_arguments_the_usage_is_shown(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert (ran.code, ran.err, ran.out.startswith("Builds a dataset on")) == (2, "", True)


TEMPLATE = ("--template", "gs://t/t.json")


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (("gs://photos",), {}, r"OUTPUT is missing: \./run_dataflow\.sh gs://photos gs://datasets/flowers/v1"),
        (COMMAND, {"PROJECT": ""}, "PROJECT is required: .*, as in PROJECT=my-project"),
        (COMMAND, {"REGION": ""}, "REGION is required: .*, as in REGION=us-central1"),
        (COMMAND, {"PYTHON": "/no/python"}, "PYTHON=/no/python has no shardfeed with Apache Beam. Install it with: .*"),
        (COMMAND, {"LACKS": "1"}, rf".* has no shardfeed with Apache Beam\. .* -m pip install '{re.escape(str(ROOT))}\[beam\]'"),
        (TEMPLATE, {}, "IMAGE is required for a template: .*"),
        ((*TEMPLATE, "--image_size"), {"IMAGE": IMAGE}, "--template takes one address: .*"),
        (("--template",), {"IMAGE": IMAGE}, "--template takes one address: .*"),
    ],
    ids=["output", "project", "region", "no python", "no package", "no image", "more than a template", "no address"],
)  # fmt: skip
def test_what_is_missing_is_named_in_one_line_and_nothing_is_asked(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    ran = run(tmp_path, *arguments, env=variables)
    assert (ran.code, ran.out, ran.started, ran.asked) == (2, "", [], [])
    assert re.fullmatch(f"run_dataflow.sh: {said}", ran.err.splitlines()[-1])


@pytest.mark.parametrize("place", ["checkout/.venv/bin/python", "path/python3"])
def test_without_a_name_python_is_the_checkouts_or_else_the_systems(tmp_path: Path, place: str) -> None:
    for name in ("checkout/.venv/bin", "path"):
        (tmp_path / name).mkdir(parents=True)
    script = Path(shutil.copy(ROOT / "run_dataflow.sh", tmp_path / "checkout"))
    write_program(tmp_path / "path" / "python3", "#!/bin/sh\nexit 1\n")
    write_program(tmp_path / place, SCRIPTED_PYTHON)
    path = f"{tmp_path / 'path'}:{os.environ['PATH']}"
    ran = run(tmp_path, *COMMAND, script=script, PYTHON="", PATH=path, CHECKS="no")
    assert (ran.code, ran.commands, ran.asked) == (0, ["plan", "build"], []), ran.err


def test_the_exit_code_is_the_builds(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PLAN="no", PYTHON_CODE="4")
    assert (ran.code, ran.commands) == (4, ["build"])


def test_a_plan_that_fails_ends_it_before_the_job(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PYTHON_CODE="2")
    assert (ran.code, ran.err, ran.commands) == (2, "", ["plan"])


def test_a_plan_of_an_input_too_large_to_list_here_is_no_plan_and_the_job_is_submitted(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PLANNED="")
    assert (ran.code, ran.out, ran.err, ran.commands) == (0, f"{BUILT}\n", "", ["plan", "build"])


def test_a_plan_that_is_sure_of_no_dataset_ends_it_before_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "photos", "cat/empty.jpg", b"")
    code = main(["plan", "--input", str(tmp_path / "photos"), "--output", str(tmp_path / "out")])
    plan = capsys.readouterr().out.rstrip("\n")
    ran = run(tmp_path, *COMMAND, PLANNED=plan, PLAN_CODE=str(code))
    said = "no job was submitted, because it would end with exit code 3, by the plan's notes. To submit it all the same: PLAN=no"
    assert (ran.code, ran.out, ran.err) == (3, "", f"{plan}\nrun_dataflow.sh: {said}\n")
    assert ran.commands == ["plan"]


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


NO_LOGIN = Says("ERROR: (gcloud.auth.print-access-token) You do not currently have an active account selected.")
NO_PROJECT = Says(
    "ERROR: (gcloud.projects.describe) Projects instance [my-project] not found: Requested entity was not found."
)
NO_RESOURCE = Says(
    "ERROR: (gcloud.compute.networks.describe) Could not fetch resource:\n"
    " - The resource 'projects/my-project/global/networks/default' was not found\n"
)
NO_TAG = Says("ERROR: (gcloud.artifacts.docker.images.describe) Image not found.\n\nA valid container image can be …")

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

ROLE = (
    "the workers' account {0} may not work for Dataflow. Allow it: gcloud projects add-iam-policy-binding my-project "
    "--member=serviceAccount:{0} --role=roles/dataflow.worker (where it may by a role of its folder, organisation or group: "
    "CHECKS=no)"
)
NETWORK = (
    "there is no network {}. Name one: NETWORK=… (gcloud compute networks subnets list --project=my-project "
    "--regions=us-central1)"
)
NO_IMAGE = (
    f"there is no image {IMAGE}, or you may not see it. Build it: gcloud builds submit --project=my-project --tag={IMAGE} "
    f"{ROOT}"
)


@pytest.mark.parametrize(
    ("words", "answer", "variables", "said"),
    [
        (
            "auth print-access-token", NO_LOGIN, {},
            "gcloud has no login, or no network; its message is above. Log in: gcloud auth login. Or skip what it is asked: "
            "CHECKS=no",
        ),
        (
            "projects describe", NO_PROJECT, {},
            "project my-project does not exist, or you may not see it (then: CHECKS=no). Yours: gcloud projects list",
        ),
        ("projects get-iam-policy", "roles/storage.objectUser", {}, ROLE.format(WORKER)),
        ("projects get-iam-policy", "", {"SERVICE_ACCOUNT": "w@p.iam"}, ROLE.format("w@p.iam")),
        ("compute networks describe", NO_RESOURCE, {}, NETWORK.format("default")),
        ("compute networks subnets describe", NO_RESOURCE, {"NETWORK": SUBNETWORK}, NETWORK.format(SUBNETWORK)),
        (
            "compute machine-types list", "", {"MACHINE_TYPE": "n9-standard-8"},
            "region us-central1 has no machines of type n9-standard-8. Its types: gcloud compute machine-types list "
            "--filter=zone~^us-central1-",
        ),
        ("artifacts docker images describe", NO_TAG, {"IMAGE": IMAGE}, NO_IMAGE),
    ],
    ids=["login", "project", "role", "role of another account", "network", "subnetwork", "machines", "image"],
)  # fmt: skip
def test_what_workers_would_lack_is_named_with_the_remedy_before_anything_starts(
    tmp_path: Path, words: str, answer: Answer, variables: dict[str, str], said: str
) -> None:
    ran = run(tmp_path, *COMMAND, answers={words: answer}, env=variables)
    assert (ran.code, ran.out, ran.started) == (2, "", [])
    assert ran.err.splitlines()[-1] == f"run_dataflow.sh: {said}"


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
        ("compute machine-types list", DENIED_LIST),
    ],
    ids=["denied", "a list denied"],
)
def test_what_gcloud_cannot_tell_is_said_and_stops_nothing(tmp_path: Path, words: str, answer: Says) -> None:
    ran = run(tmp_path, *COMMAND, answers={words: answer}, MACHINE_TYPE="n2-standard-8", IMAGE=IMAGE)
    said = f"run_dataflow.sh: gcloud could not tell, so this check is left out: gcloud {words} "
    assert (ran.code, ran.commands) == (0, ["plan", "build"])
    assert ran.err.startswith(said)
    assert ran.err.endswith(f"\n{answer.text}\n{PLANNED}\n")


def test_a_template_is_made_of_the_image_and_the_command_that_starts_it_is_shown(tmp_path: Path) -> None:
    ran = run(tmp_path, "--template", "gs://templates/shardfeed.json", IMAGE=IMAGE)
    assert (ran.code, ran.err, ran.started) == (0, "", [])
    assert ran.asked == [
        "auth print-access-token",
        f"--quiet artifacts docker images describe {IMAGE}",
        f"dataflow flex-template build gs://templates/shardfeed.json --project=my-project --image={IMAGE} "
        f"--sdk-language=PYTHON --metadata-file={ROOT}/flex_template.json",
    ]
    assert ran.out.splitlines()[1:] == [
        "Template: gs://templates/shardfeed.json",
        "Start a job: gcloud dataflow flex-template run shardfeed-1 --project=my-project --region=us-central1 \\",
        "  --template-file-gcs-location=gs://templates/shardfeed.json \\",
        f"  --parameters=input=gs://photos,output=gs://datasets/flowers/v1,sdk_container_image={IMAGE}",
    ]


def test_a_template_that_gcloud_refuses_is_an_error(tmp_path: Path) -> None:
    refused = Says("ERROR: (gcloud.dataflow.flex-template.build) UNAVAILABLE: The service is currently unavailable.")
    ran = run(tmp_path, *TEMPLATE, answers={"dataflow flex-template build": refused}, IMAGE=IMAGE)
    said = "run_dataflow.sh: gcloud could not make the template; its message is above.\n"
    assert (ran.code, ran.out, ran.err) == (2, "", f"{refused.text}\n{said}")
