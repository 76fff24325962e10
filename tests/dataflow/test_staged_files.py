"""Where staged files may lie: in a bucket, and neither in the output nor among the images."""

from __future__ import annotations

import pytest

from shardfeed import storage
from shardfeed.errors import UsageError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.dataflow.preflight import STAGED_FLAGS, check_options
from shardfeed.transforms.inputs.roots import parse_inputs

CLOUD = ("--project=my-project", "--region=us-central1", "--temp_location=gs://scratch/tmp")


def check(flag: str, url: str, source: str = "gs://photos/in", out: str = "gs://data/out") -> None:
    check_options(
        Engine("DataflowRunner", CLOUD),
        roots=parse_inputs([source]),
        output=storage.normal_url(out),
        project="my-project",
        region="us-central1",
        temp={flag: url},
    )


@pytest.mark.parametrize("flag", STAGED_FLAGS)
@pytest.mark.parametrize("place", ["", "/tmp", "/tmp/deep/er"])
@pytest.mark.parametrize("out", ["gs://data/out", "gs://data/out/"])
def test_staged_files_in_the_output_are_refused(flag: str, place: str, out: str) -> None:
    what, file = ("file", "/template") if flag == "template_location" else ("folder", "")
    with pytest.raises(UsageError) as caught:
        check(flag, f"gs://data/out{place}", out=out)
    assert str(caught.value) == (
        f"--{flag} gs://data/out{place} lies in --output gs://data/out: the build would find what is staged there, and take it "
        f"for somebody else's. Give a {what} outside of it, such as --{flag} gs://data/shardfeed-tmp{file}"
    )


@pytest.mark.parametrize("flag", STAGED_FLAGS)
@pytest.mark.parametrize("source", ["gs://photos", "gs://photos/in/"])
def test_staged_files_among_the_images_are_refused(flag: str, source: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(flag, "gs://photos/in/tmp", source=source)
    assert str(caught.value).startswith(
        f"--{flag} gs://photos/in/tmp lies in --input {source.rstrip('/')}: what is staged there would be listed with the images."
    )


def test_slashes_at_the_end_make_no_other_place() -> None:
    with pytest.raises(UsageError, match="lies in --output gs://data/out"):
        check("temp_location", "gs://data/out//")


@pytest.mark.parametrize(
    ("source", "out"),
    [("gs://photos", "gs://data"), ("gs://data/shardfeed-tmp", "gs://data/out"), ("gs://x", "gs://data/shardfeed-tmp")],
    ids=["a whole bucket", "the input is the usual place", "the output is the usual place"],
)
def test_the_folder_that_is_proposed_would_be_accepted(source: str, out: str) -> None:
    with pytest.raises(UsageError, match=r"such as --temp_location gs://ANOTHER-BUCKET/shardfeed-tmp$"):
        check("temp_location", "/tmp", source=source, out=out)


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("gs://data/out2", "gs://photos/in"),
        ("gs://data", "gs://photos/in"),
        ("gs://photos/in2/tmp", "gs://photos/in"),
        ("gs://photos/tmp", "gs://photos/*/*.jpg"),
        ("gs://photos/tmp", "gs://photos/**"),
    ],
    ids=["beside the output", "around the output", "beside the input", "no glob's", "a glob's that takes any name"],
)
def test_staged_files_that_nothing_mistakes_are_fine(url: str, source: str) -> None:
    check("temp_location", url, source=source)


@pytest.mark.parametrize("url", ["gs://scratch", "gs://scratch/", "gs://scratch/folder/", "/tmp/job", "scratch/job"])
def test_a_template_is_a_file_of_a_bucket(url: str) -> None:
    with pytest.raises(UsageError, match=r"needs a gs:// file here, for the job"):
        check("template_location", url)
