"""``run_dataflow.sh``: its variables and arguments, what it starts with them, and templates."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.dataflow.script import BUILT, COMMAND, IMAGE, PLANNED, SCRIPTED_PYTHON, Says, run, write_program
from tests.kit.sources import ROOT

FIXED = [
    *["--input", "gs://photos", "--output", "gs://datasets/flowers/v1", "--runner", "DataflowRunner"],
    *["--project", "my-project", "--region", "us-central1"],
]
TEMP = ["--temp_location", "gs://datasets/shardfeed-tmp"]
SETUP = ["--setup_file", f"{ROOT}/setup.py"]


def test_the_plan_is_shown_and_then_a_job_is_submitted_with_the_same_arguments(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, "--image_size", "224")
    same = [*FIXED, *TEMP, *SETUP, "--image_size", "224"]
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
        (
            "SERVICE_ACCOUNT",
            "w@p.iam.gserviceaccount.com",
            [*TEMP, "--service_account_email", "w@p.iam.gserviceaccount.com", *SETUP],
        ),
        ("NETWORK", "inner", [*TEMP, "--network", "inner", *SETUP]),
        ("NETWORK", "projects/my-project/global/networks/inner", [*TEMP, "--network", "inner", *SETUP]),
        (
            "NETWORK",
            "regions/us-central1/subnetworks/s",
            [*TEMP, "--subnetwork", "regions/us-central1/subnetworks/s", *SETUP],
        ),
        ("IMAGE", IMAGE, [*TEMP, "--sdk_container_image", IMAGE]),
        ("TEMP", "gs://scratch/df", ["--temp_location", "gs://scratch/df", *SETUP]),
    ],
)
def test_a_variable_becomes_an_option(tmp_path: Path, variable: str, value: str, options: list[str]) -> None:
    ran = run(tmp_path, *COMMAND, **{variable: value})
    assert (ran.code, ran.err) == (0, f"{PLANNED}\n")
    assert ran.started[1] == ["-m", "shardfeed", "build", *FIXED, *options]


def test_arguments_after_the_output_come_last_as_they_are(tmp_path: Path) -> None:
    further = ["--input", "gs://more", "--class_list", "my classes.txt", "--labels", "team=$vision *"]
    ran = run(tmp_path, *COMMAND, *further, PLAN="no")
    assert ran.started == [["-m", "shardfeed", "build", *FIXED, *TEMP, *SETUP, *further]]


@pytest.mark.parametrize("help", ["-h", "--help"])
def test_help_is_shown_wherever_it_is_asked_for(tmp_path: Path, help: str) -> None:
    ran = run(tmp_path, *COMMAND, "--image_size", "224", help)
    assert (ran.code, ran.err, ran.started, ran.asked) == (0, "", [], [])
    assert ran.out.startswith("Builds a dataset on Google Cloud Dataflow.\n")
    assert ran.out.endswith("the console or by a schedule.\n")


def test_without_arguments_the_usage_is_shown(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert (ran.code, ran.err, ran.out.startswith("Builds a dataset on")) == (2, "", True)


def test_without_an_output_an_example_is_shown(tmp_path: Path) -> None:
    ran = run(tmp_path, "gs://photos")
    said = "OUTPUT is missing: ./run_dataflow.sh gs://photos gs://datasets/flowers/v1"
    assert (ran.code, ran.err, ran.asked) == (2, f"run_dataflow.sh: {said}\n", [])


@pytest.mark.parametrize(("name", "example"), [("PROJECT", "my-project"), ("REGION", "us-central1")])
def test_what_is_required_is_named_in_one_line(tmp_path: Path, name: str, example: str) -> None:
    ran = run(tmp_path, *COMMAND, **{name: ""})
    assert (ran.code, ran.started, ran.asked) == (2, [], [])
    assert re.fullmatch(rf"run_dataflow\.sh: {name} is required: .*, as in {name}={example}\n", ran.err)


@pytest.mark.parametrize("code", ["2", "3", "4", "5"])
def test_the_exit_code_is_the_builds(tmp_path: Path, code: str) -> None:
    ran = run(tmp_path, *COMMAND, PLAN="no", PYTHON_CODE=code)
    assert (ran.code, ran.commands) == (int(code), ["build"])


def test_a_python_without_the_package_or_beam_is_named_with_the_remedy(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, LACKS="1")
    python = tmp_path / "bin" / "python"
    said = f"PYTHON={python} has no shardfeed with Apache Beam. Install it with: {python} -m pip install '{ROOT}[beam]'"
    assert (ran.code, ran.out, ran.err, ran.asked) == (2, "", f"run_dataflow.sh: {said}\n", [])


def test_a_python_that_is_no_program_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, PYTHON="/no/python")
    assert (ran.code, ran.out, ran.started) == (2, "", [])
    assert ran.err.splitlines()[-1].startswith("run_dataflow.sh: PYTHON=/no/python has no shardfeed with Apache Beam.")


@pytest.mark.parametrize("place", ["checkout/.venv/bin/python", "path/python3"])
def test_without_a_name_python_is_the_checkouts_or_else_the_systems(tmp_path: Path, place: str) -> None:
    for name in ("checkout/.venv/bin", "path"):
        (tmp_path / name).mkdir(parents=True)
    script = Path(shutil.copy(ROOT / "run_dataflow.sh", tmp_path / "checkout"))
    write_program(tmp_path / "path" / "python3", "#!/bin/sh\nexit 1\n")
    write_program(tmp_path / place, SCRIPTED_PYTHON)
    path = f"{tmp_path / 'path'}:{os.environ['PATH']}"
    ran = run(tmp_path, *COMMAND, script=script, PYTHON="", PATH=path, CHECKS="no")
    assert (ran.code, ran.commands) == (0, ["plan", "build"]), ran.err


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


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (("gs://templates/t.json",), {}, "IMAGE is required for a template"),
        (("gs://t/t.json", "--image_size"), {"IMAGE": IMAGE}, "--template takes one address"),
        ((), {"IMAGE": IMAGE}, "--template takes one address"),
    ],
    ids=["no image", "more", "no address"],
)
def test_a_template_that_cannot_be_made_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    ran = run(tmp_path, "--template", *arguments, **variables)
    assert (ran.code, ran.asked) == (2, [])
    assert ran.err.startswith(f"run_dataflow.sh: {said}")


def test_a_template_that_gcloud_refuses_is_an_error(tmp_path: Path) -> None:
    refused = Says("ERROR: (gcloud.dataflow.flex-template.build) UNAVAILABLE: The service is currently unavailable.")
    answers = {"dataflow flex-template build": refused}
    ran = run(tmp_path, "--template", "gs://templates/t.json", answers=answers, IMAGE=IMAGE)
    said = "run_dataflow.sh: gcloud could not make the template; its message is above.\n"
    assert (ran.code, ran.out, ran.err) == (2, "", f"{refused.text}\n{said}")
