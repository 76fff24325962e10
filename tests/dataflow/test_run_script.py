"""``run_dataflow.sh``: its variables and arguments, what it starts with them, and templates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.dataflow.script import (
    BUILT,
    COMMAND,
    IMAGE,
    PLANNED,
    UNAVAILABLE,
    run,
)
from tests.packaging.sources import ROOT


def test_where_all_is_well_the_plan_is_shown_beside_the_result_of_a_job_with_the_same_arguments(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, "--image_size", "224")
    same = (
        "--input gs://photos --output gs://datasets/flowers/v1 --runner DataflowRunner --project my-project --region us-central1 "
        f"--temp_location gs://datasets/shardfeed-tmp --no_save_main_session --setup_file {ROOT}/setup.py --image_size 224"
    )
    assert (ran.code, ran.out, ran.err) == (0, f"{BUILT}\n", f"{PLANNED}\n")
    assert ran.started == [f"plan: -m pipeline plan --list_at_most 1000000 {same}", f"build: -m pipeline build {same}"]


def test_more_inputs_follow_the_output(tmp_path: Path) -> None:
    ran = run(tmp_path, *COMMAND, "--input", "gs://more", PLAN="no")
    (started,) = ran.started
    assert started.startswith(
        "build: -m pipeline build --input gs://photos --output gs://datasets/flowers/v1 --runner "
    )
    assert started.endswith(" --input gs://more")


@pytest.mark.parametrize("help", ["-h", "--help"])
def test_help_is_shown_wherever_it_is_asked_for(tmp_path: Path, help: str) -> None:
    ran = run(tmp_path, *COMMAND, "--image_size", "224", help)
    assert (ran.code, ran.err, ran.started, ran.asked) == (0, "", [], [])
    assert ran.out.startswith("Builds a dataset on Google Cloud Dataflow.\n")


@pytest.mark.parametrize("code", ["2", "3", "4", "5"])
def test_the_exit_code_is_the_commands(tmp_path: Path, code: str) -> None:
    ran = run(tmp_path, *COMMAND, PLAN="no", PYTHON_CODE=code)
    assert (ran.code, len(ran.started)) == (int(code), 1)


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
