"""``run_dataflow.sh``: what it hands to ``python -m pipeline``, and what it refuses before anything starts.

PYTHON names the interpreter, so a small program stands in its place and writes down how it was called. What the script asks of
gcloud and forecasts first is in ``tests/dataflow``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.packaging import sources

SCRIPT = sources.ROOT / "run_dataflow.sh"
RECORDER = '#!/bin/sh\n[ "$1" = -c ] && exit {find_beam}\nprintf "%s\\n" "PYTHONPATH=$PYTHONPATH" "$@"\n'
REQUIRED = {"PROJECT": "my-project", "REGION": "us-central1", "CHECKS": "no", "PLAN": "no"}
COMMAND = ["gs://photos", "gs://datasets/flowers/v1"]
FIXED = [
    f"PYTHONPATH={sources.ROOT}",
    *["-m", "pipeline", "build", "--input", "gs://photos", "--output", "gs://datasets/flowers/v1"],
    *["--runner", "DataflowRunner", "--project", "my-project", "--region", "us-central1"],
]
TEMP = ["--temp_location", "gs://datasets/shardfeed-tmp"]
SETUP = ["--setup_file", str(sources.ROOT / "setup.py")]


def run(folder: Path, arguments: list[str], variables: dict[str, str], find_beam: int = 0) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) in a foreign working directory."""
    python = folder / "python"
    python.write_text(RECORDER.format(find_beam=find_beam))
    python.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "PYTHON": str(python), **variables}
    done = subprocess.run([str(SCRIPT), *arguments], cwd=folder, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def arguments_passed(folder: Path, arguments: list[str], variables: dict[str, str]) -> list[str]:
    code, out, err = run(folder, arguments, variables)
    assert (code, err) == (0, "")
    return out.splitlines()


def test_the_required_names_are_enough(tmp_path: Path) -> None:
    assert arguments_passed(tmp_path, COMMAND, REQUIRED) == [*FIXED, *TEMP, "--no_save_main_session", *SETUP]


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("WORKERS", "40", ["--max_num_workers", "40", *SETUP]),
        ("MACHINE_TYPE", "n2-standard-4", ["--worker_machine_type", "n2-standard-4", *SETUP]),
        (
            "SERVICE_ACCOUNT",
            "w@p.iam.gserviceaccount.com",
            ["--service_account_email", "w@p.iam.gserviceaccount.com", *SETUP],
        ),
        ("NETWORK", "private", ["--network", "private", *SETUP]),
        ("NETWORK", "regions/us-central1/subnetworks/a", ["--subnetwork", "regions/us-central1/subnetworks/a", *SETUP]),
        ("IMAGE", "us-docker.pkg.dev/p/i/shardfeed:1", ["--sdk_container_image", "us-docker.pkg.dev/p/i/shardfeed:1"]),
    ],
    ids=["workers", "machine type", "service account", "network", "subnetwork", "an image needs no setup file"],
)
def test_an_optional_name_becomes_an_option(tmp_path: Path, variable: str, value: str, expected: list[str]) -> None:
    passed = arguments_passed(tmp_path, COMMAND, {**REQUIRED, variable: value})
    assert passed == [*FIXED, *TEMP, "--no_save_main_session", *expected]


def test_temp_replaces_the_default_folder(tmp_path: Path) -> None:
    passed = arguments_passed(tmp_path, COMMAND, {**REQUIRED, "TEMP": "gs://scratch/df"})
    assert passed == [*FIXED, "--temp_location", "gs://scratch/df", "--no_save_main_session", *SETUP]


def test_further_arguments_come_last_as_they_are(tmp_path: Path) -> None:
    further = ["--image_size", "224", "--class_list", "my classes.txt", "--labels", "team=$vision *"]
    assert arguments_passed(tmp_path, [*COMMAND, *further], REQUIRED)[-6:] == further


@pytest.mark.parametrize("name", ["PROJECT", "REGION"])
def test_a_missing_required_name_is_named(tmp_path: Path, name: str) -> None:
    code, out, err = run(tmp_path, COMMAND, {k: v for k, v in REQUIRED.items() if k != name})
    assert (code != 0, out) == (True, "")
    assert f"{name} is required" in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROJECT", "123456"),
        ("PROJECT", "My Project"),
        ("REGION", "us-central1-a"),
        ("WORKERS", "many"),
        ("WORKERS", "0"),
        ("MACHINE_TYPE", "big"),
        ("SERVICE_ACCOUNT", "workers"),
        ("NETWORK", "projects/p/global/networks/n"),
        ("IMAGE", "--flag"),
        ("TEMP", "/tmp"),
        ("TEMP", "gs://scratch"),
    ],
)
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str, value: str) -> None:
    code, out, err = run(tmp_path, COMMAND, {**REQUIRED, name: value})
    assert (code, out) == (2, "")
    assert err.startswith(f"run_dataflow.sh: {name} is '{value}'; it must be ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["photos", "gs://d/v1"], "INPUT is 'photos'; it must be gs://"),
        (["gs://photos", "gs://d"], "OUTPUT is 'gs://d'; it must be gs://BUCKET/FOLDER"),
        (["gs://photos", "--image_size"], "OUTPUT is '--image_size'; it must be gs://BUCKET/FOLDER"),
        (["gs://photos"], "OUTPUT is missing"),
    ],
    ids=["local input", "a bare bucket as output", "a flag as output", "no output"],
)
def test_wrong_addresses_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    code, out, err = run(tmp_path, arguments, REQUIRED)
    assert (code, out) == (2, "")
    assert said in err


def test_an_interpreter_without_beam_is_refused_with_the_remedy(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, COMMAND, REQUIRED, find_beam=1)
    assert (code, out) == (2, "")
    python = tmp_path / "python"
    assert err == (
        f"run_dataflow.sh: {python} has no Apache Beam. Install it with: {python} -m pip install '{sources.ROOT}[beam]'\n"
    )


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0)], ids=["no arguments", "--help"])
def test_the_usage_is_the_header(tmp_path: Path, arguments: list[str], code: int) -> None:
    got, out, err = run(tmp_path, arguments, {})
    assert (got, err) == (code, "")
    assert out.startswith("Builds a dataset on Google Cloud Dataflow.\n")
    assert "SERVICE_ACCOUNT" in out
