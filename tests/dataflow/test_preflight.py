"""What is refused before a VM is paid for: addresses and flags that Beam would accept."""

from __future__ import annotations

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.preflight import check_flags
from shardfeed.transforms.inputs.roots import parse_inputs
from tests.dataflow.cloud import Cloud

CLOUD = ("--project=my-project", "--region=us-central1")
IMAGE = ("--sdk_container_image", "shardfeed:1")


def flags_refused(*flags: str, source: str = "gs://photos/in", out: str = "gs://data/out") -> str:
    """Why a job with these flags is refused; empty if it is not."""
    engine = Engine("DataflowRunner", (*CLOUD, *flags))
    try:
        check_flags(engine, roots=parse_inputs([source], class_depth=1), output=out)
    except UsageError as error:
        return str(error)
    return ""


NOT_OF_A_BUCKET = (
    "--{0}_location {1}: Dataflow needs a gs:// {2} here, for {3}. Give one in a bucket of the workers' region, such as "
    "--{0}_location gs://BUCKET/shardfeed-tmp"
)
NO_IMAGE = (
    "--sdk_container_image {} is not an image's address. Give one such as "
    "us-docker.pkg.dev/my-project/images/shardfeed:0.1.0; only its tag may have capitals."
)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--streaming", "--streaming: a build is a batch job; as a streaming job it would never end. Leave it out."),
        ("--dry_run=true", "--dry_run true: nothing would be built. Leave it out; for a forecast: shardfeed plan"),
        ("--staging_location=/local/x", NOT_OF_A_BUCKET.format("staging", "/local/x", "folder", "staged files")),
        *(
            (f"--template_location={url}", NOT_OF_A_BUCKET.format("template", url, "file", "the job") + "/template")
            for url in ("/tmp/job", "gs://scratch", "gs://scratch/folder/")
        ),
        *(
            (f"--sdk_container_image={image}", NO_IMAGE.format(image))
            for image in ("gcr.io/P/i:1", "gcr.io/p/i:-1", "gcr.io/p/i:R/1")
        ),
    ],
    ids=lambda value: value[:40],
)
def test_a_flag_that_cannot_be_right_is_refused(flag: str, said: str) -> None:
    assert flags_refused(flag) == said


def test_a_folder_of_this_machine_is_refused() -> None:
    here = "is a folder of this machine, which Dataflow's workers cannot see."
    copied = "Copy it first: gcloud storage cp --recursive /in gs://BUCKET/"
    assert flags_refused(source="/in") == f"--input /in {here} {copied}"
    assert flags_refused(out="/out") == f"--output /out {here} Give gs://BUCKET/FOLDER."


@pytest.mark.parametrize(
    "image",
    [
        "shardfeed:1",
        "us-docker.pkg.dev/my-project/images/shardfeed:RC1",
        "localhost:5000/shardfeed:V1_2.3-x@sha256:0f",
        "gcr.io/example.com/p/i",
    ],
)
def test_an_image_may_have_capitals_in_its_tag(image: str) -> None:
    assert flags_refused(f"--sdk_container_image={image}") == ""


@pytest.mark.parametrize("flag", ["temp_location", "staging_location", "template_location"])
def test_staged_files_in_the_output_are_refused(flag: str) -> None:
    what, file = ("file", "/template") if flag == "template_location" else ("folder", "")
    assert flags_refused(f"--{flag}=gs://data/out/tmp") == (
        f"--{flag} gs://data/out/tmp lies in --output gs://data/out: the build would find what is staged there, and take it "
        f"for somebody else's. Give a {what} outside of it, such as --{flag} gs://BUCKET/shardfeed-tmp{file}"
    )


@pytest.mark.parametrize(
    ("url", "source", "where"),
    [
        ("gs://data/out", "gs://photos/in", "--output gs://data/out"),
        ("gs://data/out//", "gs://photos/in", "--output gs://data/out"),
        ("gs://photos/in/tmp", "gs://photos", "--input gs://photos"),
        ("gs://photos/in/tmp", "gs://photos/in/", "--input gs://photos/in"),
        ("gs://data/out2", "gs://photos/in", ""),
        ("gs://data", "gs://photos/in", ""),
        ("gs://photos/in2/tmp", "gs://photos/in", ""),
        ("gs://photos/tmp", "gs://photos/*/*.jpg", ""),
        ("gs://photos/tmp", "gs://photos/**", ""),
    ],
)
def test_staged_files_are_refused_where_they_would_be_taken_for_others(url: str, source: str, where: str) -> None:
    said = flags_refused(f"--temp_location={url}", source=source)
    assert said.startswith(f"--temp_location {url} lies in {where}:") if where else said == ""


def test_what_we_leave_to_beam_is_refused_by_beam(cloud: Cloud) -> None:
    google = f"--dataflow_endpoint={GoogleCloudOptions.DATAFLOW_ENDPOINT}"  # Beam checks nothing for any other
    wrong = "--project=123456 --max_num_workers=0 --worker_zone=us-central1-a --worker_region=us-central1"
    ended = cloud.submit(*IMAGE, google, *wrong.split())
    assert (ended.code, ended.out) == (2, "")
    said = ended.err.partition("shardfeed: Beam refuses --runner DataflowRunner with these options: ")[2]
    assert "Invalid Project ID (123456)" in said
    assert "Invalid value (0) for option: max_num_workers. Value needs to be positive." in said
    assert "are mutually exclusive" in said


def test_a_build_and_its_plan_are_refused_before_anything_is_asked_of_dataflow(cloud: Cloud) -> None:
    flags = (*IMAGE, "--temp_location", "gs://data/out/tmp")
    for ended in (cloud.submit(*flags), cloud.plan(*flags, "--output", "gs://data/out")):
        assert (ended.code, ended.out, cloud.service.jobs) == (2, "", [])
        assert (
            "shardfeed: --temp_location gs://data/out/tmp lies in --output gs://data/out: the build would" in ended.err
        )


def test_a_job_whose_workers_could_not_have_the_package_is_refused(cloud: Cloud) -> None:
    ended = cloud.build(*cloud.options)
    assert (ended.code, ended.out, cloud.service.jobs) == (2, "", [])
    assert ended.err.endswith(
        "shardfeed: --runner DataflowRunner needs --setup_file setup.py, from a checkout, or --sdk_container_image: else the "
        "workers have no shardfeed. run_dataflow.sh gives one of the two; docs/how-to/dataflow.md says which when.\n"
    )


def test_an_output_that_holds_other_files_is_a_conflict_before_any_job(cloud: Cloud) -> None:
    cloud.put("data", {"foreign/holiday.jpg": b"x"})
    ended = cloud.submit(*IMAGE, out="gs://data/foreign")
    assert (ended.code, ended.out, cloud.service.jobs) == (5, "", [])
    assert "--output gs://data/foreign holds files that are not a shardfeed build's: holiday.jpg." in ended.err
