"""The Flex template: its parameters, and its launcher as Flex runs it."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from typing import Any

import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from shardfeed.errors import UsageError
from shardfeed.pipeline.cli.config_from_flags import build_config
from shardfeed.pipeline.cli.flags import add_build_flags
from shardfeed.pipeline.dataflow.flex_template import SWITCHES, build_arguments
from tests.dataflow.cloud import Cloud
from tests.dataflow.execution import execute, graph, staged
from tests.dataflow.image import Image
from tests.dataflow.service import PROJECT, REGION, End, Job
from tests.kit.sources import ROOT
from tests.pipeline.test_config import BYTES, NO_BYTES, NO_SHARDS, NO_SIZES, SHARDS, SIZES

METADATA = json.loads((ROOT / "flex_template.json").read_text())
PARAMETERS: dict[str, dict[str, Any]] = {parameter["name"]: parameter for parameter in METADATA["parameters"]}
VALUES = {  # besides those of the flags' own tests
    "input": ["gs://photos", "gs://photos/in/*/*.jpg", "gs://"],
    "output": ["gs://data/flowers/v1", "gs://data/*"],
    "image_size": [*SIZES, *NO_SIZES, *["1", "1x8192", "8099x100", "100x8190", "big", "224x0", "8193"]],
    "resize": ["crop", "longest", "stretch"],
    "channels": ["gray", "cmyk"],
    "image_format": ["raw", "gif"],
    "quality": ["1", "95", "100", "0", "101"],
    "splits": ["train", "folders", "train=0.9,validation=0.1", "train=", "train validation"],
    "num_shards": [*SHARDS, *NO_SHARDS, "train=9999999"],
    "shard_bytes": [*BYTES, *NO_BYTES, "0.5 gb", "10 B", "big", "100TB", "0MB", "0.0GB"],
    "max_rejected": [
        *["0", "25", "1%", "0.5%", ".5%", "12.5%", "100%", "100.0%"],
        *["-1", "some", "0.5", "1/3%", "1e1%", "1_0", "+5", "1.%", "%", ".%", "-1%", "100.1%", "101%", "150%"],
        "9" * 19,
    ],
    "seed": ["0", "-1", "1.5"],
}
# Good and bad values, for flags that take no value, are Beam's, or also take what a job cannot.
SPECIAL = {
    "input": ([], ["photos/"]),
    "output": ([], ["gs://data", "/out"]),
    "sdk_container_image": (
        [
            "us-docker.pkg.dev/p/r/shardfeed:0.1.0",
            f"us-docker.pkg.dev/p/r/shardfeed:_{'X.y-2' * 25}00",
            "us-docker.pkg.dev/example.com/p/r/a_b/shardfeed",
            "localhost:5000/i:V1@sha256:0f",
        ],
        ["--flag", "", "us-docker.pkg.dev/p/R/i:1", "p/r/i:-1", f"p/r/i:{'X' * 129}", "us-docker.pkg.dev/p/r/"],
    ),
    **{name: (["true", "false"], ["yes", "1"]) for name in ("keep_original", "discard_incomplete", "cross_region")},
}
# What no pattern can tell, and the launcher refuses: products, sums, names given twice. And a
# bracket, which every engine of regular expressions writes in its own way.
LAUNCHERS = [
    ("output", "gs://data/a]"),
    ("image_size", "2049x2048"),
    ("num_shards", "a=1,a=2"),
    ("splits", "train=0.9,validation=0.2"),
]


def accepted(name: str, value: str) -> bool:
    return all(re.search(pattern, value) for pattern in PARAMETERS[name]["regexes"])


def taken(name: str, value: str) -> bool:
    """Whether the command line takes the value."""
    parser = argparse.ArgumentParser()
    add_build_flags(parser)
    parser.set_defaults(command="build")
    given = {"input": "gs://photos", "output": "gs://data/flowers", name: value}
    try:
        build_config(parser.parse_args([f"--{flag}={value}" for flag, value in given.items()]), [])
    except (UsageError, SystemExit):
        return False
    return True


def test_every_parameter_is_described_tried_here_and_a_flag() -> None:
    parser = argparse.ArgumentParser()
    add_build_flags(parser)
    assert [name for name, p in PARAMETERS.items() if not (p["label"] and p["helpText"] and p["regexes"])] == []
    assert set(PARAMETERS) == {*VALUES, *SPECIAL}
    assert set(PARAMETERS) - {action.dest for action in parser._actions} == {"sdk_container_image"}  # Beam's


@pytest.mark.parametrize("name", VALUES)
def test_a_pattern_and_its_flag_agree(name: str) -> None:
    tried = [value for value in VALUES[name] if (name, value) not in LAUNCHERS]
    found = {value: accepted(name, value) for value in tried}
    assert found == {value: taken(name, value) for value in tried}
    assert {*found.values()} == {True, False}


@pytest.mark.parametrize(("name", "value"), LAUNCHERS)
def test_what_no_pattern_can_tell_the_launcher_refuses(name: str, value: str) -> None:
    assert (accepted(name, value), taken(name, value)) == (True, False)


@pytest.mark.parametrize("name", SPECIAL)
def test_a_pattern_lets_good_values_pass_and_no_others(name: str) -> None:
    good, bad = SPECIAL[name]
    assert {value for value in (*good, *bad) if accepted(name, value)} == {*good}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_pattern_means_the_same_to_egrep(name: str) -> None:
    r"""Google calls them "POSIX-egrep": \s is no space there, and \] ends a bracket."""
    good, bad = SPECIAL.get(name, ([], []))
    tried = [value for value in (*VALUES.get(name, ()), *good, *bad) if value]
    (pattern,) = PARAMETERS[name]["regexes"]
    command = ["grep", "-E", "--text", "-e", pattern]
    found = subprocess.run(command, input="\n".join(tried), env={"LC_ALL": "C"}, capture_output=True, text=True)
    assert found.stdout.splitlines() == [value for value in tried if accepted(name, value)]
    assert not re.search(r"\\[a-z]|\(\?", pattern)  # GNU's egrep knows \s, others do not


def test_empty_parameters_are_left_out_and_switches_are_switched() -> None:
    given = "--input=gs://p --num_shards= --keep_original=true --discard_incomplete=false --region=us-central1"
    assert build_arguments(given.split()) == ["build", "--input=gs://p", "--keep_original", "--region=us-central1"]


def test_each_flag_without_a_value_can_be_a_parameter() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_build_flags(parser)
    assert {action.dest for action in parser._actions if action.nargs == 0} - {"json"} == SWITCHES


IMAGE = "us-docker.pkg.dev/p/r/shardfeed:0.1.0"
JOB = "gs://scratch/staging/template_launches/2026-11-21_1/job_object"  # where Flex wants it
FORM = (
    "--input=gs://photos/in",
    "--output=gs://data/out",
    f"--sdk_container_image={IMAGE}",
    "--image_size=16",
    "--splits=",
    "--keep_original=false",
)
# What the launcher adds to what was filled in.
ADDED = (
    "--runner=DataflowRunner",
    f"--project={PROJECT}",
    f"--region={REGION}",
    "--job_name=from-a-form",
    "--temp_location=gs://scratch/tmp",
    "--staging_location=gs://scratch/staging",
    f"--template_location={JOB}",
    '--labels={"goog-dataflow-provided-template-type":"flex"}',
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(tmp_path_factory.mktemp("image"))


def test_the_programs_that_the_dockerfile_runs_to_check_the_image_pass_in_it(image: Image) -> None:
    ended = {code: image.python_in("-c", code) for code in image.checks()}
    assert ended and {code: done.stderr for code, done in ended.items() if done.returncode != 0} == {}


@pytest.fixture(scope="module")
def launched(image: Image, cloud: Cloud) -> subprocess.CompletedProcess[str]:
    """The launcher's program, when it has ended by itself."""
    key = os.environ["GOOGLE_APPLICATION_CREDENTIALS"]  # on a VM it is the metadata server's
    env = {"STORAGE_EMULATOR_HOST": cloud.gcs, "GOOGLE_APPLICATION_CREDENTIALS": key}
    return image.launch((*FORM, *ADDED), env)


@pytest.fixture(scope="module")
def job(launched: subprocess.CompletedProcess[str], cloud: Cloud) -> Job:
    """What the launcher hands over to the service."""
    assert launched.returncode == 0, launched.stderr
    found: Job = json.loads(cloud.objects("scratch")[JOB.removeprefix("gs://scratch/")])
    return found


def test_the_launcher_writes_the_job_and_ends_without_submitting_it(
    launched: subprocess.CompletedProcess[str], job: Job, cloud: Cloud
) -> None:
    assert launched.stdout == (
        "Submitted, not waited for: the job is in the template's file\nThe dataset is there when gs://data/out/manifest.json is; "
        "to see whether it is, rerun the same command.\n"
    )
    assert cloud.service.jobs == []
    assert job["name"] == "from-a-form"


def test_the_jobs_workers_run_in_the_image_of_the_form_and_fetch_no_package(job: Job) -> None:
    (workers,) = job["environment"]["workerPools"]
    containers = [each["containerImage"] for each in workers["sdkHarnessContainerImages"]]
    payloads = [
        beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image
        for environment in graph(job).components.environments.values()
        if environment.urn == common_urns.environments.DOCKER.urn
    ]
    assert (workers["workerHarnessContainerImage"], containers, set(payloads)) == (IMAGE, [IMAGE], {IMAGE})
    assert list(staged(job)) == ["pipeline.pb"]


def test_the_jobs_graph_publishes_the_dataset_from_workers_of_that_image(cloud: Cloud, image: Image, job: Job) -> None:
    assert execute(job, image, cloud.gcs) == End()
    assert cloud.build(out="gs://data/local").code == 0
    assert cloud.digests("out/") == cloud.digests("local/")
    assert "manifest.json" in cloud.digests("out/")
